"""A circuit breaker that is told how requests went.

pybreaker keeps the state and says when it changes. It is told each result between two awaits, so its lock is never
held over one; and of a server that is tried again, one request at a time is the trial. How long it stays open goes by
a clock of ours, since pybreaker's may jump.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pybreaker

__all__ = ["STATES", "Attempt", "Breaker"]

STATES = (pybreaker.STATE_CLOSED, pybreaker.STATE_HALF_OPEN, pybreaker.STATE_OPEN)


class Breaker:
    """Opens after ``failures`` in a row; after ``seconds`` one attempt decides whether it closes.

    ``on_change`` is called with each new state.
    """

    def __init__(self, failures: int, seconds: float, on_change: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._on_change = on_change
        self._opened_at = 0.0
        self._storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
        self._circuit = pybreaker.CircuitBreaker(
            fail_max=failures,
            reset_timeout=seconds,
            state_storage=self._storage,
            listeners=[_Told(self._changed)],
            throw_new_error_on_trip=False,
        )
        self._trial: Attempt | None = None

    @property
    def state(self) -> str:
        """One of STATES."""
        return self._storage.state

    @property
    def admits(self) -> bool:
        """Whether an attempt may begin now."""
        if self.state == pybreaker.STATE_CLOSED:
            return True
        return self._trial is None and (self.state == pybreaker.STATE_HALF_OPEN or self._waited())

    def attempt(self) -> Attempt:
        """Begin; ask ``admits`` first. Close the attempt in the end, however it went."""
        attempt = Attempt(self)
        if self.state != pybreaker.STATE_CLOSED:
            self._trial = attempt
            self._circuit.half_open()
        return attempt

    def tell(self, attempt: Attempt, error: Exception | None) -> None:
        """How the attempt went. An attempt that began before the circuit opened says nothing about it any more."""
        if self.state != pybreaker.STATE_CLOSED and attempt is not self._trial:
            return
        with suppress(_Failed):
            self._circuit.call(_result, error)
        self.forget(attempt)

    def forget(self, attempt: Attempt) -> None:
        if attempt is self._trial:
            self._trial = None

    def _changed(self, state: str) -> None:
        if state == pybreaker.STATE_OPEN:
            self._opened_at = time.monotonic()
        self._on_change(state)

    def _waited(self) -> bool:
        return time.monotonic() >= self._opened_at + self._seconds


class Attempt:
    """One use of the server. It may succeed (its first answer came) and fail later on."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    def succeeded(self) -> None:
        self._breaker.tell(self, None)

    def failed(self, error: Exception) -> None:
        self._breaker.tell(self, error)

    def close(self) -> None:
        """It is over; without a result before, it says nothing about the server."""
        self._breaker.forget(self)


class _Failed(Exception):
    """The failure as the circuit sees it."""


def _result(error: Exception | None) -> None:
    if error is not None:
        raise _Failed(str(error)) from error


class _Told(pybreaker.CircuitBreakerListener):
    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change

    def state_change(
        self,
        cb: pybreaker.CircuitBreaker,
        old_state: pybreaker.CircuitBreakerState | None,
        new_state: pybreaker.CircuitBreakerState,
    ) -> None:
        self._on_change(new_state.name)
