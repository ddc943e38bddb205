"""Counts what happens to requests, in plain Python; a sampler publishes it, off the token path.

A token costs the engine's thread one look at the clock and one append to a bounded queue.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from python_llm.error_reasons import OTHER, labels_of
from python_llm.errors import EngineFailure, ServeError
from python_llm.generation import Event, Failed, Finished, FinishReason, GenerateRequest, Sink, Tokens

__all__ = ["Outcome", "Recorder", "Unrecorded"]

_MOST_KEPT = 1 << 13  # observations of one kind that wait for the sampler; beyond them the oldest are forgotten


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an admitted request ended. Times in seconds; ``queued`` None: the engine does not tell, or it never ran."""

    reason: str  # a FinishReason
    error: ServeError | None
    whole: float
    queued: float | None
    prompt_tokens: int
    output_tokens: tuple[int, ...]  # of each sequence that ended without an error


class Recorder:
    """Any thread may call; ``decoding`` and ``output_tokens`` are written by the engine's thread alone."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.decoding = 0  # sequences that have a token and have not ended at the engine
        self._lock = threading.Lock()  # guards the two below and prompt_tokens
        self._finished: Counter[tuple[str, ...]] = Counter({(reason,): 0 for reason in get_args(FinishReason)})
        self._errors: Counter[tuple[str, ...]] = Counter({(EngineFailure.code, OTHER): 0})  # so that the family is told
        self.observed: Mapping[str, deque[float]] = {name: deque(maxlen=_MOST_KEPT) for name in _OBSERVED}

    def groups(self) -> dict[str, dict[tuple[str, ...], int]]:
        """Counts by label values."""
        with self._lock:
            return {"finished": dict(self._finished), "errors": dict(self._errors)}

    def failed(self, error: ServeError) -> None:
        """A request ended with an error: refused, or later."""
        with self._lock:
            self._finished[("error",)] += 1
            self._errors[labels_of(error)] += 1

    def ended(self, outcome: Outcome) -> None:
        """An admitted request is over, at the caller's end and at the engine's."""
        if outcome.error is not None:
            self.failed(outcome.error)
        else:
            with self._lock:
                self._finished[(outcome.reason,)] += 1
        self.observed["whole"].append(outcome.whole)
        self.observed["prompt_length"].append(outcome.prompt_tokens)
        self.observed["output_length"].extend(outcome.output_tokens)
        if outcome.queued is not None:
            self.observed["queued"].append(outcome.queued)

    def watch(self, request: GenerateRequest, sink: Sink, arrival: float) -> Sink:
        """A request that the engine is about to get: its sink, which also times its tokens from here on.

        ``arrival`` as time.monotonic().
        """
        with self._lock:
            self.prompt_tokens += len(request.prompt_ids)
        return _TimedSink(self, sink, arrival)


class Unrecorded(Recorder):
    """Counts nothing: of probes, and where there are no metrics."""

    def failed(self, error: ServeError) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...

    def watch(self, request: GenerateRequest, sink: Sink, arrival: float) -> Sink:
        return sink


_OBSERVED = ("first_token", "between_tokens", "queued", "whole", "prompt_length", "output_length")


class _TimedSink:
    """Used by the engine's thread alone."""

    __slots__ = ("_arrival", "_between", "_last", "_recorder", "_sink")

    def __init__(self, recorder: Recorder, sink: Sink, arrival: float) -> None:
        self._recorder = recorder
        self._sink = sink
        self._arrival = arrival  # 0 once the first token is told
        self._between = recorder.observed["between_tokens"].append
        self._last: dict[int, float] = {}  # sequence -> when its latest token came, as time.monotonic()

    def __call__(self, event: Event, /) -> None:
        self._sink(event)
        if isinstance(event, Tokens):
            now = time.monotonic()
            index, count = event.index, len(event.ids)
            last = self._last.get(index)
            self._last[index] = now
            self._recorder.output_tokens += count
            if last is None:
                self._begin(now)
            elif count == 1:
                self._between(now - last)
            else:
                for _ in range(count):
                    self._between((now - last) / count)
        else:
            self._end(event)

    def _begin(self, now: float) -> None:
        """A sequence's first token."""
        self._recorder.decoding += 1
        if self._arrival:
            self._recorder.observed["first_token"].append(now - self._arrival)
            self._arrival = 0.0

    def _end(self, event: Event) -> None:
        if isinstance(event, Finished):
            self._recorder.decoding -= self._last.pop(event.index, None) is not None
        elif isinstance(event, Failed):
            self._recorder.decoding -= len(self._last)
            self._last.clear()
