"""A sink that keeps what it is told, and notices what it should not be told."""

from __future__ import annotations

import threading
from collections import defaultdict

from python_llm.engine import Event, Failed, Finished, PromptLogProbs, Tokens, TopLogProbs

__all__ = ["Collector"]

_PATIENCE_SECONDS = 300.0  # only catches hangs: a prompt of 32K tokens on a busy machine takes minutes


class Collector:
    """Of a request of ``sequences`` sequences. ``late`` is what came after the end of its sequence or request."""

    def __init__(self, sequences: int = 1) -> None:
        self.streams: dict[int, list[int]] = defaultdict(list)
        self.log_probs: dict[int, list[float]] = defaultdict(list)
        self.top_log_probs: dict[int, list[TopLogProbs]] = defaultdict(list)
        self.prompt: PromptLogProbs | None = None
        self.ends: dict[int, Finished] = {}
        self.failure: Failed | None = None
        self.late: list[Event] = []
        self._sequences = sequences
        self._done = threading.Event()

    def __call__(self, event: Event, /) -> None:
        if self._done.is_set() or (isinstance(event, (Tokens, Finished)) and event.index in self.ends):
            self.late.append(event)
        elif isinstance(event, Tokens):
            self.streams[event.index].extend(event.ids)
            self.log_probs[event.index].extend(event.log_probs)
            self.top_log_probs[event.index].extend(event.top_log_probs)
        elif isinstance(event, PromptLogProbs):
            if self.prompt is not None or self.streams:
                self.late.append(event)
            self.prompt = event
        elif isinstance(event, Failed):
            self.failure = event
            self._done.set()
        else:
            self.ends[event.index] = event
            if len(self.ends) == self._sequences:
                self._done.set()

    @property
    def ids(self) -> list[int]:
        """Of the first sequence."""
        return self.streams[min(self.streams, default=0)]

    @property
    def end(self) -> Finished | Failed | None:
        if self.failure is not None or not self._done.is_set():
            return self.failure
        return self.ends[min(self.ends)]

    def wait(self) -> Finished | Failed:
        """The end of the first sequence, once all have ended."""
        assert self._done.wait(_PATIENCE_SECONDS), "the request never ended"
        assert self.end is not None
        return self.end

    def finished(self) -> Finished:
        end = self.wait()
        assert isinstance(end, Finished), end
        return end
