"""An engine the test moves by hand: it echoes the prompt one token at each ``step()``, and fails when told."""

from __future__ import annotations

import threading
import time

from python_llm.engine import (
    Capabilities,
    EngineLimits,
    EngineStats,
    Failed,
    Finished,
    GenerateRequest,
    Sink,
    Tokens,
    Usage,
)
from python_llm.errors import EngineFailure

__all__ = ["HandEngine"]

_PATIENCE_SECONDS = 30.0  # only catches hangs


class HandEngine:
    """``lazy_cancel`` keeps cancelled requests until the next step, as an engine in the middle of a step does."""

    capabilities = Capabilities(
        sampling=frozenset({"temperature", "top_k", "top_p", "min_p", "seed"}), priorities=True, resume=True
    )

    def __init__(self, *, max_running: int = 4, context: int = 256, lazy_cancel: bool = False) -> None:
        self.limits = EngineLimits(context, vocab_size=512, max_running=max_running, cache_tokens=1 << 20)
        self.requests: dict[str, tuple[GenerateRequest, Sink]] = {}
        self.made: dict[str, int] = {}
        self.steps = 0
        self.submitted = 0
        self.cancels: list[str] = []
        self.closed = False
        self.is_healthy = True
        self._lazy = lazy_cancel
        self._changed = threading.Condition()

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        with self._changed:
            assert request.request_id not in self.requests, "one id, two requests"
            self.submitted += 1
            self.requests[request.request_id] = (request, sink)
            self.made[request.request_id] = len(request.resume_ids)
            self._changed.notify_all()

    def cancel(self, request_id: str, index: int | None = None) -> None:
        with self._changed:
            self.cancels.append(request_id)
            if not self._lazy:
                self._end_cancelled(request_id)
            self._changed.notify_all()

    def step(self) -> None:
        """A token for each of the first ``max_running`` requests."""
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

    def stats(self) -> EngineStats:
        here = len(self.requests)
        running = min(here, self.limits.max_running)
        return EngineStats(running=running, waiting=here - running, steps=self.steps)

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
        request, sink = self.requests[request_id]
        made = self.made[request_id]
        sink(Tokens(0, (request.prompt_ids[made % len(request.prompt_ids)],)))
        self.made[request_id] = made + 1
        if made + 1 >= request.max_tokens:
            del self.requests[request_id]
            sink(Finished(0, "length", Usage(len(request.prompt_ids), made + 1)))

    def _end_cancelled(self, request_id: str) -> None:
        found = self.requests.pop(request_id, None)
        if found is not None:
            request, sink = found
            sink(Finished(0, "cancelled", Usage(len(request.prompt_ids), self.made[request_id])))
