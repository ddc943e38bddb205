"""A deterministic engine that repeats its prompt; slow, failing or stalled on command. For tests and probes.

The commands stand in the artifact's ``echo.json``.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

from python_llm.artifact import Artifact
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
from python_llm.records import read_record
from python_llm.settings import ServingConfig

__all__ = ["EchoEngine", "EchoScript", "load"]


@dataclass(frozen=True)
class EchoScript:
    """``fail_at`` and ``stall_at`` are step numbers; 0: never."""

    step_seconds: float = 0.0
    fail_at: int = 0
    stall_at: int = 0


@dataclass
class _Running:
    request: GenerateRequest
    sink: Sink
    made: int = field(default=0)

    def usage(self) -> Usage:
        return Usage(len(self.request.prompt_ids), self.made)


class EchoEngine:
    """One token of the prompt, in a circle, for each running request in each step."""

    capabilities = Capabilities(
        sampling=frozenset({"temperature", "top_k", "top_p", "min_p", "seed"}), priorities=True, resume=True
    )

    def __init__(self, limits: EngineLimits, script: EchoScript) -> None:
        self.limits = limits
        self._script = script
        self._running: dict[str, _Running] = {}
        self._steps = 0
        self._closed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="echo-engine", daemon=True)
        self._thread.start()

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        with self._wake:
            if self._closed:
                sink(Failed(EngineFailure("engine_closed", "engine: it is closed.")))
                return
            self._running[request.request_id] = _Running(request, sink, len(request.resume_ids))
            self._wake.notify()

    def cancel(self, request_id: str, index: int | None = None) -> None:
        with self._wake:
            running = self._running.pop(request_id, None)
            if running:
                running.sink(Finished(0, "cancelled", running.usage()))
            self._wake.notify_all()

    def stats(self) -> EngineStats:
        running = len(self._running)
        return EngineStats(
            running=min(running, self.limits.max_running),
            waiting=max(0, running - self.limits.max_running),
            steps=self._steps,
        )

    def prefix_hashes(self) -> tuple[bytes, ...]:
        return ()

    def healthy(self) -> bool:
        return self._thread.is_alive()

    def drain(self, deadline: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: not self._running, max(0.0, deadline - time.monotonic()))
            left = list(self._running)
        for request_id in left:
            self.cancel(request_id)

    def close(self) -> None:
        self.drain(0.0)
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or bool(self._running))
                if self._closed:
                    return
            time.sleep(self._script.step_seconds)
            with self._wake:
                if self._steps + 1 == self._script.stall_at:
                    self._wake.wait_for(lambda: self._closed)
                    return
                self._steps += 1
                self._step()
                self._wake.notify_all()

    def _step(self) -> None:
        failing = self._steps == self._script.fail_at
        by_priority = sorted(self._running.items(), key=lambda item: item[1].request.priority)
        for request_id, running in by_priority[: self.limits.max_running]:
            if failing:
                running.sink(Failed(EngineFailure("engine_failed", f"engine: told to fail at step {self._steps}.")))
                del self._running[request_id]
                continue
            prompt = running.request.prompt_ids
            running.sink(Tokens(0, (prompt[running.made % len(prompt)],)))
            running.made += 1
            if running.made >= running.request.max_tokens:
                running.sink(Finished(0, "length", running.usage()))
                del self._running[request_id]


def load(artifact: Artifact, serving: ServingConfig) -> EchoEngine:
    """The engine factory of artifact kind ``echo``."""
    facts = artifact.manifest.model
    limits = EngineLimits(
        max_sequence_len=serving.max_sequence_len or facts.context_length,
        vocab_size=facts.vocab_size,
        max_running=serving.max_running,
        cache_tokens=1 << 30,
    )
    file = artifact.path / "echo.json"
    script = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return EchoEngine(limits, read_record(EchoScript, script, f"'{file}'"))
