"""The engine: a thread that schedules, runs the model, samples and tells, one step after another."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from itertools import count

from python_llm.engine import (
    Capabilities,
    EngineLimits,
    EngineStats,
    Failed,
    Finished,
    FinishReason,
    GenerateRequest,
    Sink,
    Tokens,
)
from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.runner import ModelRunner, build_batch
from python_llm.engines.paged.sampler import Draw, sample
from python_llm.engines.paged.scheduler import Scheduler, Slice
from python_llm.engines.paged.sequence import Sequence
from python_llm.errors import EngineFailure, InvalidRequest
from python_llm.settings import ServingConfig

__all__ = ["PagedEngine"]

_log = logging.getLogger(__name__)


class PagedEngine:
    """In-flight batching over a ModelRunner; see ``python_llm.engine.Engine`` for the contract."""

    capabilities = Capabilities(
        sampling=frozenset({"temperature", "top_k", "top_p", "min_p", "seed"}), priorities=True, resume=True
    )

    def __init__(self, runner: ModelRunner, serving: ServingConfig, *, context_length: int) -> None:
        self._runner = runner
        self._pool = BlockPool(runner.block_count)
        self._cache = PrefixCache(self._pool, runner.block_size, enabled=serving.prefix_cache)
        self._scheduler = Scheduler(
            self._pool,
            self._cache,
            block_size=runner.block_size,
            max_running=serving.max_running,
            max_num_tokens=serving.max_num_tokens,
        )
        self.limits = EngineLimits(
            max_sequence_len=min(serving.max_sequence_len or context_length, context_length),
            vocab_size=runner.vocab_size,
            max_running=serving.max_running,
            cache_tokens=runner.block_count * runner.block_size,
        )
        self._steps = 0
        self._arrivals = count()
        self._wake = threading.Condition()  # guards the five below
        self._unfinished = 0
        self._arrived: deque[Sequence] = deque()
        self._cancelled: set[str] = set()
        self._cancel_all = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="paged-engine", daemon=True)
        self._thread.start()

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        with self._wake:
            if self._closed:
                sink(Failed(_closed()))
                return
            if len(request.prompt_ids) + request.max_tokens > self.limits.max_request_tokens:
                sink(Failed(_too_long(request, self.limits)))  # it would wait for blocks for ever
                return
            self._unfinished += 1
            self._arrived.append(Sequence(request, sink, next(self._arrivals)))
            self._wake.notify_all()

    def cancel(self, request_id: str, index: int | None = None) -> None:
        with self._wake:
            self._cancelled.add(request_id)
            self._wake.notify_all()

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting) + len(self._arrived),
            steps=self._steps,
            block_size=self._runner.block_size,
            blocks_used=self._pool.used_count,
            blocks_total=self._pool.total,
            blocks_cached=self._pool.known_count,
            prefix_tokens_hit=self._cache.tokens_hit,
            prefix_tokens_seen=self._cache.tokens_seen,
            preemptions=self._scheduler.preemptions,
        )

    def healthy(self) -> bool:
        return self._thread.is_alive()

    def drain(self, deadline: float) -> None:
        with self._wake:
            self._wake.wait_for(self._is_idle, max(0.0, deadline - time.monotonic()))
            self._cancel_all = True
            self._wake.notify_all()
            self._wake.wait_for(self._is_idle)
            self._cancel_all = False

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join()

    def _is_idle(self) -> bool:
        return self._unfinished == 0

    def _run(self) -> None:
        try:
            while self._collect():
                self._step_safely()
        except BaseException as error:
            _log.exception("the engine's thread died")
            self._fail_all(EngineFailure("engine_failed", f"engine: {error!r}."))
        finally:
            self._fail_all(_closed())

    def _collect(self) -> bool:
        """Take arrivals and cancellations; sleep while there is nothing to do. False once closed."""
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._cancelled or not self._is_idle())
            if self._closed:
                return False
            while self._arrived:
                self._scheduler.add(self._arrived.popleft())
            cancelled, self._cancelled = self._cancelled, set()
            everybody = self._cancel_all
        for sequence in self._scheduler.everybody():
            if everybody or sequence.request.request_id in cancelled:
                self._finish(sequence, "cancelled")
        return True

    def _step_safely(self) -> None:
        plan: list[Slice] = []
        try:
            plan = self._scheduler.schedule()
            if plan:
                self._step(plan)
        except Exception as error:
            _log.exception("a step failed")
            failure = EngineFailure("engine_failed", f"engine: a step failed: {error!r}; the request was lost.")
            touched = {part.sequence for part in plan}
            for sequence in self._scheduler.everybody():
                if sequence in touched or not plan:
                    self._fail(sequence, failure)

    def _step(self, plan: list[Slice]) -> None:
        logits = self._runner.forward(build_batch(plan))
        self._steps += 1
        sampled = [part for part in plan if part.samples]
        ids = iter(sample(logits, [_draw_of(part.sequence) for part in sampled]))
        for part in plan:
            self._advance(part)
            if part.samples:
                self._accept(part.sequence, next(ids))

    def _advance(self, part: Slice) -> None:
        sequence, before = part.sequence, part.sequence.computed
        sequence.computed += part.count
        self._cache.remember(sequence, before)

    def _accept(self, sequence: Sequence, token_id: int) -> None:
        if sequence.output_count == len(sequence.request.resume_ids):
            self._cache.count(sequence)
        if token_id in sequence.request.end_ids:
            self._finish(sequence, "stop")
            return
        sequence.tokens.append(token_id)
        sequence.sink(Tokens(0, (token_id,)))
        if sequence.is_full:
            self._finish(sequence, "length")

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        self._end(sequence, Finished(0, reason, sequence.usage()))

    def _fail(self, sequence: Sequence, error: EngineFailure) -> None:
        self._end(sequence, Failed(error))

    def _end(self, sequence: Sequence, event: Finished | Failed) -> None:
        self._scheduler.remove(sequence)
        sequence.sink(event)
        with self._wake:
            self._unfinished -= 1
            self._wake.notify_all()

    def _fail_all(self, error: EngineFailure) -> None:
        with self._wake:
            self._closed = True
            while self._arrived:
                self._scheduler.add(self._arrived.popleft())
            for sequence in self._scheduler.everybody():
                self._fail(sequence, error)
            self._wake.notify_all()


def _draw_of(sequence: Sequence) -> Draw:
    request = sequence.request
    must_go_on = sequence.output_count < request.min_tokens
    return Draw(
        params=request.sampling,
        index=0,
        position=len(sequence.tokens),
        forbidden=request.end_ids if must_go_on else frozenset(),
    )


def _too_long(request: GenerateRequest, limits: EngineLimits) -> InvalidRequest:
    return InvalidRequest(
        "request_too_long",
        f"request '{request.request_id}': {len(request.prompt_ids)} prompt tokens and max_tokens {request.max_tokens}; "
        f"together at most {limits.max_request_tokens}: shorten it.",
    )


def _closed() -> EngineFailure:
    return EngineFailure("engine_closed", "engine: it is closed; ask another server.")
