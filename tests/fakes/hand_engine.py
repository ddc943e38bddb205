"""An engine the test moves by hand: it echoes the prompt one token at each ``step()``, and fails when told."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, fields

from python_llm.engine import (
    Capabilities,
    EngineLimits,
    EngineStats,
    Failed,
    Finished,
    FinishReason,
    GenerateRequest,
    PromptLogProbs,
    SamplingParams,
    Sink,
    Tokens,
    TopLogProbs,
    Usage,
)
from python_llm.errors import EngineFailure

__all__ = ["ABLE", "HandEngine", "echoed", "log_prob_of", "top_of"]

_PATIENCE_SECONDS = 30.0  # only catches hangs

# All that a request may ask.
ABLE = Capabilities(
    sampling=frozenset(f.name for f in fields(SamplingParams)),
    priorities=True,
    resume=True,
    log_probs=True,
    sequences=True,
    max_beam_width=8,
    guides=frozenset({"json", "json_schema", "regex"}),
    cache_salt=True,
    adapters=("french", "legal"),
)


def echoed(request: GenerateRequest, index: int, position: int) -> int:
    """The token that sequence ``index`` has at ``position``: each begins the prompt one token later."""
    return request.prompt_ids[(position + index) % len(request.prompt_ids)]


def log_prob_of(index: int, position: int) -> float:
    return -(position + 1) / 8 - index


def top_of(index: int, position: int, count: int) -> TopLogProbs:
    return tuple((rank + position, -rank / 4 - index) for rank in range(count))


@dataclass
class _Running:
    request: GenerateRequest
    sink: Sink
    made: dict[int, int] = field(default_factory=dict)  # tokens of each sequence that runs

    def end(self, index: int, reason: FinishReason) -> None:
        usage = Usage(len(self.request.prompt_ids), self.made.pop(index), blocks_reused=1, blocks_allocated=3)
        self.sink(Finished(index, reason, usage))


class HandEngine:
    """``lazy_cancel`` keeps cancelled requests until the next step, as an engine in the middle of a step does."""

    capabilities = ABLE

    def __init__(self, *, max_running: int = 4, context: int = 256, lazy_cancel: bool = False) -> None:
        self.limits = EngineLimits(context, vocab_size=512, max_running=max_running, cache_tokens=1 << 20)
        self.requests: dict[str, tuple[GenerateRequest, Sink]] = {}
        self.steps = 0
        self.submitted = 0
        self.cancels: list[str] = []
        self.cancelled_sequences: list[int] = []
        self.closed = False
        self.hashes: list[bytes] = []
        self.is_healthy = True
        self._running: dict[str, _Running] = {}
        self._lazy = lazy_cancel
        self._changed = threading.Condition()

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        with self._changed:
            assert request.request_id not in self.requests, "one id, two requests"
            self.submitted += 1
            self.requests[request.request_id] = (request, sink)
            indices = range(request.first_index, request.first_index + request.sequence_count)
            made = dict.fromkeys(indices, len(request.resume_ids))
            self._running[request.request_id] = _Running(request, sink, made)
            self._changed.notify_all()

    def cancel(self, request_id: str, index: int | None = None) -> None:
        with self._changed:
            if index is not None:
                self._end_sequence(request_id, index)
            else:
                self.cancels.append(request_id)
                if not self._lazy:
                    self._end_cancelled(request_id)
            self._changed.notify_all()

    def step(self) -> None:
        """A token for each sequence of the first ``max_running`` requests."""
        with self._changed:
            self.steps += 1
            for request_id in self.cancels if self._lazy else ():
                self._end_cancelled(request_id)
            for request_id in list(self.requests)[: self.limits.max_running]:
                self._advance(request_id)
            self._changed.notify_all()

    def fail(self, text: str = "engine: told to fail.") -> None:
        """Fail everybody."""
        with self._changed:
            for request_id in list(self.requests):
                _, sink = self.requests.pop(request_id)
                sink(Failed(EngineFailure("engine_failed", text)))

    def wait_for(self, count: int) -> None:
        """Until that many requests are here."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) == count, _PATIENCE_SECONDS)

    def wait_for_cancels(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(set(self.cancels)) >= count, _PATIENCE_SECONDS)

    def wait_for_cancelled_sequences(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.cancelled_sequences) >= count, _PATIENCE_SECONDS)

    def stats(self) -> EngineStats:
        here = len(self.requests)
        running = min(here, self.limits.max_running)
        return EngineStats(running=running, waiting=here - running, steps=self.steps)

    def prefix_hashes(self) -> list[bytes]:
        return self.hashes

    def healthy(self) -> bool:
        return self.is_healthy

    def drain(self, deadline: float) -> None:
        """As the protocol says: running requests have until ``deadline``; what is left is cancelled."""
        with self._changed:
            self._changed.wait_for(lambda: not self.requests, max(0.0, deadline - time.monotonic()))
            for request_id in list(self.requests):
                self._end_cancelled(request_id)

    def close(self) -> None:
        self.closed = True

    def _advance(self, request_id: str) -> None:
        running = self._running[request_id]
        request = running.request
        if request.prompt_log_probs and not request.resume_ids and max(running.made.values()) == 0:
            running.sink(_prompt_log_probs(request))
        for index, position in list(running.made.items()):
            if position < request.max_tokens:
                running.sink(_tokens(request, index, position))
                running.made[index] = position + 1
            if running.made[index] >= request.max_tokens:
                running.end(index, "length")
        if not running.made:
            del self.requests[request_id]

    def _end_sequence(self, request_id: str, index: int) -> None:
        running = self._running.get(request_id)
        if running and request_id in self.requests and index in running.made:
            running.end(index, "cancelled")
            self.cancelled_sequences.append(index)
            if not running.made:
                del self.requests[request_id]

    def _end_cancelled(self, request_id: str) -> None:
        if self.requests.pop(request_id, None) is not None:
            running = self._running[request_id]
            for index in list(running.made):
                running.end(index, "cancelled")


def _tokens(request: GenerateRequest, index: int, position: int) -> Tokens:
    ids = (echoed(request, index, position),)
    if not request.log_probs:
        return Tokens(index, ids)
    tops = (top_of(index, position, request.top_log_probs),) if request.top_log_probs else ()
    return Tokens(index, ids, (log_prob_of(index, position),), tops)


def _prompt_log_probs(request: GenerateRequest) -> PromptLogProbs:
    positions = range(1, len(request.prompt_ids))
    tops = tuple(top_of(0, p, request.top_log_probs) for p in positions) if request.top_log_probs else ()
    return PromptLogProbs(tuple(log_prob_of(0, p) for p in positions), tops)
