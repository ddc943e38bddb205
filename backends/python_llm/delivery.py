"""The way from the engine's thread to the callers: one thread, so that the engine never waits for a caller.

Sending a response costs CPU time in three processes, which the engine's own threads lose. So sending is paced: after
a round of responses that took t seconds, ordinary tokens wait until t / share have passed, and then go out several
to a response. First tokens and ends go out at once, and one or two streams are not paced: they get every token alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from python_llm.engine import Event, Sink, Tokens
from python_llm.session import Session

__all__ = ["Delivery"]

_UNPACED = 2  # responses of a round that cost too little to wait for
_LONGEST_WAIT_SECONDS = 0.15  # on a busy machine a round takes long; its streams must not crawl

Handler = Callable[[Session, list[Event]], None]


class Delivery:
    """Calls ``handle(session, events)`` on its thread, in order; ``handle`` must not raise."""

    def __init__(self, handle: Handler, *, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._handle = handle
        self._share = share
        self._clock = clock
        self._queue: SimpleQueue[tuple[Session, Event] | None] = SimpleQueue()
        self._waiting: dict[Session, list[Event]] = {}
        self._next_round = 0.0  # on the clock
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._thread.start()

    def sink(self, session: Session) -> Sink:
        """Where the engine puts the session's events."""
        return _Sink(self._queue, session)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Deliver what is queued and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while self._collect():
            due = self._clock() >= self._next_round
            self._send([session for session, events in self._waiting.items() if due or _is_urgent(session, events)])
        self._send(list(self._waiting))

    def _collect(self) -> bool:
        """Wait for an event or the next round; take all that is queued. False at the end."""
        timeout = max(0.0, self._next_round - self._clock()) if self._waiting else None
        try:
            item = self._queue.get(timeout=timeout)
            while item is not None:
                self._waiting.setdefault(item[0], []).append(item[1])
                if self._queue.empty():
                    return True
                item = self._queue.get()
            return False
        except Empty:
            return True

    def _send(self, sessions: list[Session]) -> None:
        if not sessions:
            return
        begin = self._clock()
        for session in sessions:
            self._handle(session, self._waiting.pop(session))
        if len(sessions) <= _UNPACED:
            return
        end = self._clock()
        wait = min((end - begin) * (1.0 / self._share - 1.0), _LONGEST_WAIT_SECONDS)
        self._next_round = max(self._next_round, end + wait)


class _Sink:
    """The engine's end of the queue."""

    __slots__ = ("_queue", "_session")

    def __init__(self, queue: SimpleQueue[tuple[Session, Event] | None], session: Session) -> None:
        self._queue = queue
        self._session = session

    def __call__(self, event: Event, /) -> None:
        self._queue.put((self._session, event))


def _is_urgent(session: Session, events: list[Event]) -> bool:
    return not session.begun or not isinstance(events[-1], Tokens)
