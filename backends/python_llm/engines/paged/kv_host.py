"""Blocks in host memory, the least recently used given up first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

__all__ = ["Content", "HostBlocks", "nbytes"]

Content = Mapping[str, npt.NDArray[Any]]  # of one block: cache tensor -> array [1, ...]; never written again


class HostBlocks:
    """Contents by hash, ``cap`` bytes at most; used by any thread."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._lock = threading.Lock()  # guards the two below
        self._contents: OrderedDict[bytes, Content] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._contents)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._contents

    def put(self, digest: bytes, content: Content) -> None:
        """Keep the content as the one used last."""
        with self._lock:
            self._take(digest)
            self._contents[digest] = content
            self._bytes += nbytes(content)
            while self._bytes > self._cap:
                self._take(next(iter(self._contents)))

    def get(self, digest: bytes) -> Content | None:
        return self._contents.get(digest)

    def touch(self, digests: list[bytes]) -> None:
        """These were used now, the first of them last: a prefix is worth most at its head."""
        with self._lock:
            for digest in reversed(digests):
                if digest in self._contents:
                    self._contents.move_to_end(digest)

    def _take(self, digest: bytes) -> None:
        content = self._contents.pop(digest, None)
        if content is not None:
            self._bytes -= nbytes(content)


def nbytes(content: Content) -> int:
    return sum(array.nbytes for array in content.values())
