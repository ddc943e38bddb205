"""The end of a server in order: refuse new requests, finish old ones, then end Triton.

Triton's own in-flight count leaks and its gRPC accepts requests while it exits, so the generators are asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from python_llm.errors import ServeError
from triton_launcher.control import NoAnswer, Status
from triton_launcher.launch import Running
from triton_launcher.options import ServeOptions
from triton_launcher.stop import Latch

__all__ = ["Drain"]

_LOOK_SECONDS = 0.1
_CALL_SECONDS = 2.0  # for one control call: between two of them a second signal is noticed
_SPARE_SECONDS = 3.0  # beyond tritonserver's own exit timeout


class Drain:
    """`run` it once; a second signal (``hasten``) cuts every wait short."""

    def __init__(self, running: Running, options: ServeOptions, hasten: Latch) -> None:
        self._running = running
        self._options = options
        self._hasten = hasten
        self._deadline = time.monotonic() + options.drain_seconds

    def run(self, generators: Sequence[str]) -> str | None:
        """Drain and end the server; None when every request finished, else what was cut."""
        unfinished = self._finish_requests(generators)
        server = self._running.server
        server.terminate()
        deadline = time.monotonic() + self._options.exit_seconds + _SPARE_SECONDS
        while server.alive() and time.monotonic() < deadline and not self._hasten.wait(_LOOK_SECONDS):
            pass
        self._running.end()
        return unfinished

    def _finish_requests(self, generators: Sequence[str]) -> str | None:
        control = self._running.control
        for model in generators:
            if self._ask(control.drain, model) is None:
                return f"'{model}' did not answer the drain; its requests were cut"
        while left := self._busy(generators):
            if self._hasten.wait(_LOOK_SECONDS):
                return f"{left} requests were cut: a second signal came"
            if time.monotonic() > self._deadline:
                return f"{left} requests did not finish in {self._options.drain_seconds:g} s (--drain-seconds)"
        return None

    def _busy(self, generators: Sequence[str]) -> int:
        """Requests that still run or wait; a generator that does not answer counts as one."""
        answers = [self._ask(self._running.control.status, model) for model in generators]
        return sum(1 if answer is None else answer.busy for answer in answers)

    def _ask(self, question: Callable[[str, float], Status], model: str) -> Status | None:
        """Ask again and again until it answers, dies, a second signal comes or the time is up (None)."""
        while self._running.server.alive():
            try:
                return question(model, _CALL_SECONDS)
            except (NoAnswer, ServeError):
                if self._hasten.wait(_LOOK_SECONDS) or time.monotonic() > self._deadline:
                    break
        return None
