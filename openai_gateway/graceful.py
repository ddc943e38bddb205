"""uvicorn with an end in order: no new connections, streams finish, and what does not is told so.

uvicorn closes idle keep-alive connections at once and waits for the busy ones. When the grace is over, the upstream
ends what still runs with an error, which each stream writes as its last words; only a client that does not read them
is cut.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from python_llm.errors import ServeError, Unavailable

__all__ = ["GracefulServer"]

_LAST_WORDS_SECONDS = 5


class GracefulServer(uvicorn.Server):
    """``stop`` ends what runs with the given error. A second signal ends the grace."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[ServeError], None], grace_seconds: float) -> None:
        config.timeout_graceful_shutdown = int(grace_seconds) + _LAST_WORDS_SECONDS
        super().__init__(config)
        self._stop = stop
        self._grace_seconds = grace_seconds
        self._hastened = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, without raising the signals again once all is over: the exit code tells how it ended. What
        comes after that changes nothing any more."""
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            if self.should_exit:
                loop.call_soon_threadsafe(self._hastened.set)
            self.should_exit = True

        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, signal.SIG_IGN)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = asyncio.create_task(self._end_streams())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_streams(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._hastened.wait(), self._grace_seconds)
        self._stop(Unavailable("draining", "gateway: it stops; ask again: retry after 1 s."))
