"""How long to wait before a restart: not at all at first, then longer while deaths follow within a minute."""

from __future__ import annotations

__all__ = ["Backoff"]

WINDOW_SECONDS = 60.0
FREE_RESTARTS = 2
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0


class Backoff:
    """Ask `next_delay` once per restart: 0, 0, 1, 2, 4, … 30 seconds; a minute without a restart forgets it all."""

    def __init__(self) -> None:
        self._count = 0
        self._last = float("-inf")

    def next_delay(self, now: float) -> float:
        if now - self._last > WINDOW_SECONDS:
            self._count = 0
        beyond = self._count - FREE_RESTARTS
        delay = 0.0 if beyond < 0 else min(FIRST_DELAY_SECONDS * 2.0**beyond, LONGEST_DELAY_SECONDS)
        self._count += 1
        self._last = now + delay
        return delay
