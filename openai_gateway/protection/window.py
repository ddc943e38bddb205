"""At most so much within any stretch of time: a sliding window.

A token bucket that holds a minute's worth lets two minutes' worth pass within one; here no window of ``seconds``
holds more than ``limit``. What came close together shares a slot that leaves the window with its youngest, so that a
window costs at most ``_SLOTS`` slots however much passes, and errs only to the strict side.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["Slot", "Window"]

_SLOTS = 100


@dataclass(slots=True)
class Slot:
    """``first``, ``last``: when what is in it came, in seconds of the caller's clock."""

    first: float
    last: float
    amount: int


class Window:
    """The caller brings the clock: ``now`` in seconds, never less than before."""

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit, self.seconds = limit, seconds
        self._grain = seconds / _SLOTS
        self._slots: deque[Slot] = deque()
        self._spent = 0

    def spent(self, now: float) -> int:
        """What counts now; above the limit only where more was used than `take` had been told."""
        while self._slots and self._slots[0].last + self.seconds <= now:
            self._spent -= self._slots.popleft().amount
        return self._spent

    def left(self, now: float) -> int:
        return max(0, self.limit - self.spent(now))

    def wait(self, amount: int, now: float) -> float:
        """Seconds until ``amount`` fits; 0: now. An amount above the limit waits until the window is empty."""
        excess = self.spent(now) + min(amount, self.limit) - self.limit
        if excess <= 0:
            return 0.0
        for slot in self._slots:
            excess -= slot.amount
            if excess <= 0:
                return slot.last + self.seconds - now
        return self.seconds

    def take(self, amount: int, now: float) -> Slot:
        """Count ``amount`` in; ask `wait` first. Returns where it stands, for `correct`."""
        self.spent(now)
        self._spent += amount
        if self._slots and now - self._slots[-1].first < self._grain:
            slot = self._slots[-1]
            slot.last, slot.amount = now, slot.amount + amount
        else:
            slot = Slot(now, now, amount)
            self._slots.append(slot)
        return slot

    def correct(self, slot: Slot, difference: int, now: float) -> None:
        """It was more, or less: ``difference`` is added to what stands there. Of what has left the window, nothing."""
        self.spent(now)
        if self._slots and slot.last >= self._slots[0].last:
            slot.amount += difference
            self._spent += difference
