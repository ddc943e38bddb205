"""When to come back to a full queue: from how fast requests ended lately, and who was told already."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["ServiceRate"]

_REMEMBERED = 64  # ends
_UNKNOWN_SECONDS = 1.0  # before anything ended
_BOUNDS = (0.1, 60.0)


class ServiceRate:
    """The n-th caller refused since the queue last moved is told to come n places later, so that they come in turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: deque[float] = deque(maxlen=_REMEMBERED)
        self._told = 0

    def ended(self) -> None:
        """A request ended, and its place is free."""
        with self._lock:
            self._ends.append(self._clock())
            self._told = max(0, self._told - 1)

    def retry_after(self) -> float:
        """Seconds until a place should be free for one more caller."""
        with self._lock:
            self._told += 1
            if not self._ends:
                return _UNKNOWN_SECONDS
            each = (self._clock() - self._ends[0]) / len(self._ends)
            return min(max(each * self._told, _BOUNDS[0]), _BOUNDS[1])
