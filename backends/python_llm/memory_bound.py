"""Refuses new requests while memory is short, so that the kernel does not kill those that run."""

from __future__ import annotations

import time
from collections.abc import Callable

from python_llm.errors import Unavailable
from python_llm.machine import Memory, read_memory, resident_bytes

__all__ = ["MemoryBound"]

_FULL_SHARE = {"container": 0.95, "machine": 0.98}  # beyond it the kernel is about to choose whom to kill
_LOOK_SECONDS = 0.25  # a look reads a few small files


class MemoryBound:
    """`check` before each request. Any thread may; two that look at once do no harm."""

    def __init__(
        self,
        most: int,
        *,
        resident: Callable[[], int] = resident_bytes,
        whole: Callable[[], Memory] = read_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``most``: bytes this process may hold; 0: as much as the container and the machine have."""
        self._most = most
        self._resident = resident
        self._whole = whole
        self._clock = clock
        self._looked_at = -_LOOK_SECONDS
        self._shortage = ""

    def check(self) -> None:
        """Raises Unavailable while memory is short."""
        if shortage := self.shortage():
            raise Unavailable("memory_pressure", shortage)

    def shortage(self) -> str:
        """What is short; empty when nothing is."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            self._shortage = self._look()
        return self._shortage

    def _look(self) -> str:
        if self._most:
            held = self._resident()
            return "" if held < self._most else _text(f"the generator holds {_mb(held)}", self._most, "memory_bytes")
        memory = self._whole()
        if memory.share < _FULL_SHARE[memory.of]:
            return ""
        return _text(f"{_mb(memory.used)} are in use", memory.limit, f"the {memory.of}'s")


def _text(what: str, limit: int, whose: str) -> str:
    return (
        f"memory: {what} of {_mb(limit)} ({whose}); ask again when running requests have ended, ask another server, "
        "or give this one more memory or a smaller kv_cache_bytes."
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
