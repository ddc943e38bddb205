"""The engine: a thread that schedules and steps, and the queues between it and its callers."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from python_llm.engine import EngineLimits, EngineStats, Failed, GenerateRequest, Sink
from python_llm.engines.paged import refusals
from python_llm.engines.paged.abilities import abilities
from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.ending import Ending
from python_llm.engines.paged.guide_queue import GuideQueue
from python_llm.engines.paged.kv_store import open_store
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.runner import ModelRunner
from python_llm.engines.paged.scheduler import Scheduler
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.slice import Slice
from python_llm.engines.paged.speculation import Speculation
from python_llm.engines.paged.step import Step
from python_llm.errors import EngineFailure, InvalidRequest, ServeError
from python_llm.settings import ServingConfig

if TYPE_CHECKING:
    from python_llm.engines.paged.grammar import GrammarCompiler

__all__ = ["PagedEngine"]

_log = logging.getLogger(__name__)


class PagedEngine:
    """In-flight batching over a ModelRunner; see ``python_llm.engine.Engine`` for the contract."""

    def __init__(
        self,
        runner: ModelRunner,
        serving: ServingConfig,
        *,
        context_length: int,
        grammar: GrammarCompiler | None = None,
        speculation: Speculation | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        """``grammar`` None: requests with a guide are not among the engine's abilities. ``identity``: see kv_store."""
        self._runner = runner
        self._wake = threading.Condition()  # guards the six at the end
        self._pool = BlockPool(runner.block_count)
        self._store = open_store(runner, self._pool, serving, identity or {}, self._look_again)
        self._cache = PrefixCache(self._pool, runner.block_size, enabled=serving.prefix_cache, store=self._store)
        self._scheduler = Scheduler(
            self._pool,
            self._cache,
            block_size=runner.block_size,
            max_running=serving.max_running,
            max_num_tokens=serving.max_num_tokens,
            max_itl_seconds=serving.max_itl_ms / 1e3,
            ageing_seconds=serving.ageing_seconds,
            speculation=speculation,
        )
        self._ending = Ending(self._scheduler, self._request_over)
        self._step = Step(runner, self._scheduler, self._cache, self._ending)
        self._guides = GuideQueue(grammar)
        self.limits = EngineLimits(
            max_sequence_len=min(serving.max_sequence_len or context_length, context_length),
            vocab_size=runner.vocab_size,
            max_running=serving.max_running,
            cache_tokens=runner.block_count * runner.block_size,
        )
        self.capabilities = abilities(serving.max_running, self._guides.kinds)
        self._steps = 0
        self._arrivals = count()
        self._unfinished = 0  # requests
        self._arrived: deque[Sequence] = deque()
        self._compiling: set[Sequence] = set()
        self._cancelled: set[tuple[str, int | None]] = set()
        self._cancel_all = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="paged-engine", daemon=True)
        self._thread.start()

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        with self._wake:
            error = refusals.closed() if self._closed else self._never_fits(request)
            if error is not None:
                sink(Failed(error))
                return
            self._unfinished += 1
            sequence = Sequence(request, sink, next(self._arrivals))
            if request.guide is None:
                self._arrived.append(sequence)
            else:
                self._compiling.add(sequence)
                self._guides.prepare(sequence, self._prepared)
            self._wake.notify_all()

    def cancel(self, request_id: str, index: int | None = None) -> None:
        with self._wake:
            for sequence in self._compiling:
                sequence.cancelled = sequence.cancelled or sequence.request.request_id == request_id
            self._cancelled.add((request_id, index))
            self._wake.notify_all()

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting) + len(self._arrived) + len(self._compiling),
            steps=self._steps,
            block_size=self._runner.block_size,
            blocks_used=self._pool.used_count,
            blocks_total=self._pool.total,
            blocks_cached=self._pool.known_count,
            prefix_tokens_hit=self._cache.tokens_hit,
            prefix_tokens_seen=self._cache.tokens_seen,
            preemptions=self._scheduler.preemptions,
            drafts_proposed=self._scheduler.speculation.proposed,
            drafts_accepted=self._scheduler.speculation.accepted,
            **self._store.figures(),
        )

    def prefix_hashes(self) -> list[bytes]:
        return [] if self._closed else self._pool.known()

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
        self._store.close()
        self._guides.close()
        self._scheduler.speculation.close()
        self._runner.close()

    def _never_fits(self, request: GenerateRequest) -> InvalidRequest | None:
        """What would wait for places or blocks for ever."""
        limits, block = self.limits, self._runner.block_size
        places = request.beam.width if request.beam else request.sequence_count
        tokens = len(request.prompt_ids) + request.max_tokens
        if tokens > limits.max_request_tokens:
            return refusals.too_long(request, limits.max_request_tokens)
        if request.beam and places * -(-tokens // block) > self._pool.total:  # beams go in step: all must be there
            return refusals.too_long(request, self._pool.total // places * block)
        return refusals.too_many(request, places, limits.max_running) if places > limits.max_running else None

    def _prepared(self, sequence: Sequence, failure: ServeError | None) -> None:
        """A guide was compiled, or not."""
        with self._wake:
            self._compiling.discard(sequence)
            if failure is None and not self._closed:
                self._arrived.append(sequence)
            else:
                sequence.sink(Failed(failure or refusals.closed()))
                self._unfinished -= 1
            self._wake.notify_all()

    def _is_idle(self) -> bool:
        return self._unfinished == 0

    def _has_work(self) -> bool:
        waiting = self._scheduler.waiting
        cancelling = self._cancelled or (self._cancel_all and waiting)
        return bool(cancelling or self._arrived or self._scheduler.running or waiting.first())

    def _look_again(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _run(self) -> None:
        try:
            while self._collect():
                self._step_safely()
        except BaseException as error:
            _log.exception("the engine's thread died")
            self._fail_all(EngineFailure("engine_failed", f"engine: {error!r}."))
        finally:
            self._fail_all(refusals.closed())

    def _collect(self) -> bool:
        """Take arrivals and cancellations; sleep while there is nothing to do. False once closed."""
        with self._wake:
            store = self._store
            self._wake.wait_for(lambda: self._closed or self._has_work() or store.has_idle_work, store.patience())
            if self._closed:
                return False
            while self._arrived:
                self._cache.read_ahead(self._arrived[0])
                self._scheduler.add(self._arrived.popleft())
            cancelled, self._cancelled = self._cancelled, set()
            everybody = self._cancel_all
        for sequence in self._scheduler.everybody():
            name = sequence.request.request_id
            alone = sequence.places == 1 and (name, sequence.index) in cancelled
            if everybody or sequence.cancelled or (name, None) in cancelled or alone:
                self._ending.finish(sequence, "cancelled")
            elif sequence.matcher is not None and sequence.matcher.finished:
                self._ending.finish(sequence, "stop")  # resumed where its guide ends
        return True

    def _step_safely(self) -> None:
        plan: list[Slice] = []
        try:
            plan = self._scheduler.schedule()
            if plan:
                self._step.run(plan)
                self._steps += 1
            else:
                self._store.work_idly()
        except Exception as error:
            _log.exception("a step failed")
            failure = EngineFailure("engine_failed", f"engine: a step failed: {error!r}; the request was lost.")
            for sequence in [part.sequence for part in plan] or self._scheduler.everybody():
                self._ending.fail(sequence, failure)

    def _request_over(self) -> None:
        with self._wake:
            self._unfinished -= 1
            self._wake.notify_all()

    def _fail_all(self, error: EngineFailure) -> None:
        with self._wake:
            self._closed = True
            while self._arrived:
                self._scheduler.add(self._arrived.popleft())
            for sequence in self._scheduler.everybody():
                self._ending.fail(sequence, error)
            self._wake.notify_all()
