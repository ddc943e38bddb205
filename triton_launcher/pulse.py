"""Is a generator alive? The rules, free of threads and clocks; `probe` feeds them.

Life is a step counter that advances, a probe answered with a real token, ``queue_full`` or ``memory_pressure``. Death
is no step for ``stall_seconds`` with work waiting, no control answer for ``control_seconds``, or an engine that says
twice in a row that it is not healthy, or fails two probes in a row.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from python_llm.errors import EngineFailure, ServeError
from triton_launcher.control import Status

__all__ = ["Pulse", "PulseLimits"]

_IN_A_ROW = 2
_ALIVE_BUT_BUSY = ("queue_full", "memory_pressure")


@dataclass(frozen=True)
class PulseLimits:
    stall_seconds: float
    control_seconds: float


class Pulse:
    """Seconds are of one monotonic clock, given by the caller; safe to use from several threads."""

    def __init__(self, limits: PulseLimits, now: float) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._answered_at = now
        self._life_at = now
        self._steps = -1
        self._busy = 0
        self._probing = False
        self._stepping = False
        self._unhealthy = 0
        self._failed_probes = 0
        self._last_error = ""
        self._refuses = ""

    @property
    def refuses(self) -> str:
        """Why the generator takes no new requests, by its latest status; empty when it does."""
        with self._lock:
            return self._refuses

    @property
    def stepping(self) -> bool:
        """Work is there and the latest status showed new steps: no probe is needed to see life."""
        with self._lock:
            return self._stepping

    def status_answered(self, status: Status, now: float) -> None:
        with self._lock:
            self._answered_at = now
            advanced = status.steps != self._steps
            idle = status.busy == 0 and not self._probing
            if idle or advanced:
                self._life_at = now
            self._steps, self._busy = status.steps, status.busy
            self._stepping = advanced and status.busy > 0
            self._refuses = status.refuses
            self._unhealthy = 0 if status.healthy or status.draining else self._unhealthy + 1

    def status_failed(self, error: Exception) -> None:
        with self._lock:
            self._last_error = str(error)

    def probe_sent(self) -> None:
        """From now on a still step counter means something even if the generator counts no request."""
        with self._lock:
            self._probing = True

    def probe_answered(self, error: ServeError | None, now: float) -> None:
        """The probe brought a token, or an error: both are answers, and a token, or being too busy, is life."""
        with self._lock:
            self._probing = False
            self._answered_at = now
            if error is None or error.reason in _ALIVE_BUT_BUSY:
                self._life_at = now
            self._failed_probes = self._failed_probes + 1 if isinstance(error, EngineFailure) else 0
            self._last_error = str(error or "")

    def probe_lost(self) -> None:
        """The probe got no answer: no life, and no death by itself."""
        with self._lock:
            self._probing = False

    def excuse(self, seconds: float) -> None:
        """The launcher itself was suspended for so long: that silence was its own."""
        with self._lock:
            self._answered_at += seconds
            self._life_at += seconds

    def cause_of_death(self, now: float) -> str | None:
        """None while there is life."""
        with self._lock:
            if now - self._answered_at > self._limits.control_seconds:
                last = f" (last: {self._last_error})" if self._last_error else ""
                return f"no control answer for {now - self._answered_at:.0f} s{last}"
            if now - self._life_at > self._limits.stall_seconds:
                return f"no step for {now - self._life_at:.0f} s with {max(self._busy, 1)} requests waiting"
            if self._unhealthy >= _IN_A_ROW:
                return "its engine says it is not healthy"
            if self._failed_probes >= _IN_A_ROW:
                return f"its engine fails: {self._last_error}"
            return None
