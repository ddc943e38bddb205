"""A sink that keeps what it is told, and notices what it should not be told."""

from __future__ import annotations

import threading

from python_llm.engine import Event, Failed, Finished, Tokens

__all__ = ["Collector"]

_PATIENCE_SECONDS = 60.0  # only catches hangs


class Collector:
    """``end`` is the request's Finished or Failed; ``late`` is what came after it."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.end: Finished | Failed | None = None
        self.late: list[Event] = []
        self._done = threading.Event()

    def __call__(self, event: Event, /) -> None:
        if self.end is not None:
            self.late.append(event)
        elif isinstance(event, Tokens):
            self.ids.extend(event.ids)
        elif isinstance(event, (Finished, Failed)):
            self.end = event
            self._done.set()

    def wait(self) -> Finished | Failed:
        assert self._done.wait(_PATIENCE_SECONDS), "the request never ended"
        assert self.end is not None
        return self.end

    def finished(self) -> Finished:
        end = self.wait()
        assert isinstance(end, Finished), end
        return end
