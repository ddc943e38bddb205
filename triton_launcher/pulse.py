"""Is a generator alive? The rules, free of threads and clocks; `probe` feeds them.

Life is a step counter that advances, a probe answered with a real token, or ``queue_full``. Death is no step for
``stall_seconds`` with work waiting, no control answer for ``control_seconds``, or an engine that says twice that
it is not healthy.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from python_llm.errors import ServeError

from triton_launcher.control import Status

__all__ = ["Pulse", "PulseLimits"]

_UNHEALTHY_ANSWERS = 2


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
        self._unhealthy = 0
        self._probing = False
        self.status: Status | None = None  # the latest

    def status_answered(self, status: Status, now: float) -> None:
        with self._lock:
            self._answered_at = now
            idle = status.busy == 0 and not self._probing
            if idle or status.steps != self._steps:
                self._life_at = now
            self._steps = status.steps
            self._unhealthy = 0 if status.healthy or status.draining else self._unhealthy + 1
            self.status = status

    def probe_sent(self) -> None:
        """From now on a still step counter means something even if the generator counts no request."""
        with self._lock:
            self._probing = True

    def probe_ended(self, error: ServeError | None, now: float) -> None:
        """The probe brought a token, or was answered with ``error``: both are answers; full or fine is life."""
        with self._lock:
            self._probing = False
            self._answered_at = now
            if error is None or error.reason in ("queue_full", "draining"):
                self._life_at = now

    def probe_lost(self) -> None:
        """The probe got no answer: no life, and no death by itself."""
        with self._lock:
            self._probing = False

    def quiet(self, now: float) -> float:
        """Seconds since the last sign of life."""
        with self._lock:
            return now - self._life_at

    def cause_of_death(self, now: float) -> str | None:
        """None while there is life."""
        with self._lock:
            if now - self._answered_at > self._limits.control_seconds:
                return f"no control answer for {now - self._answered_at:.0f} s"
            if now - self._life_at > self._limits.stall_seconds:
                busy = self.status.busy if self.status is not None else 0
                return f"no step for {now - self._life_at:.0f} s with {max(busy, 1)} requests waiting"
            if self._unhealthy >= _UNHEALTHY_ANSWERS:
                return "its engine says it is not healthy"
            return None
