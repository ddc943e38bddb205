"""Whether answers fit into the shared memory through which the backend hands them to Triton.

A response that does not fit would be Triton's error about a pool that cannot grow, or the end of the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from python_llm.errors import Unavailable

__all__ = ["SharedRoom"]

_PLACE = Path("/dev/shm")


def _free() -> int:
    status = os.statvfs(_PLACE)
    return status.f_bavail * status.f_frsize


class SharedRoom:
    """Triton's region only grows, and is used again: what it once held needs no new room.

    It holds the answers of one batch at once.
    """

    def __init__(self, free: Callable[[], int] = _free) -> None:
        self._free = free
        self._grown = 0
        self._taken = 0

    def begin(self) -> None:
        """A batch begins; the one before it is sent."""
        self._grown = max(self._grown, self._taken)
        self._taken = 0

    def take(self, size: int, what: str) -> None:
        """Count ``size`` bytes of an answer of this batch.

        Raises:
            Unavailable: they do not fit.
        """
        missing = self._taken + size - self._grown
        if missing > 0 and missing > (free := self._free()):
            raise Unavailable(
                "shared_memory_full",
                f"{what}: {size} bytes, {_PLACE} has {free} free; ask for token_log_probs, sum_log_probs or "
                "top_log_probs, send fewer rows, or give the container more (--shm-size).",
            )
        self._taken += size
