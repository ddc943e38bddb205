"""KV blocks with reference counts. Free blocks that hold a known prefix stay findable until they are reused.

Law (property-tested): free + referenced = total, and no block is both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

__all__ = ["BlockPool"]


class BlockPool:
    """Block ids 0 to ``total`` - 1. Free blocks are reused in the order of their last use, those without a known
    prefix first. ``forgetting`` is told of each known block just before it is reused.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._references = [0] * total
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(total))
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self.forgetting: Callable[[int, bytes], None] = lambda block, digest: None

    @property
    def free_count(self) -> int:
        return len(self._free)

    @property
    def used_count(self) -> int:
        return self.total - len(self._free)

    @property
    def known_count(self) -> int:
        """Blocks whose content can be found by hash."""
        return len(self._block_of)

    def allocate(self) -> int:
        """Take the free block that is worth least; its old content is forgotten. IndexError when none is free."""
        if not self._free:
            raise IndexError("no free KV block")
        block = next(iter(self._free))
        if block in self._hash_of:
            self.forgetting(block, self._hash_of[block])
            del self._block_of[self._hash_of.pop(block)]
        del self._free[block]
        self._references[block] = 1
        return block

    def share(self, block: int) -> None:
        """Add a reference to a block whose content is wanted as it is."""
        self._free.pop(block, None)
        self._references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference of each; callers name the blocks to be reused first, first."""
        for block in blocks:
            if self._references[block] < 1:
                raise ValueError(f"KV block {block} was released more often than taken")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                if block not in self._hash_of:
                    self._free.move_to_end(block, last=False)

    def is_free(self, block: int) -> bool:
        return block in self._free

    def is_shared(self, block: int) -> bool:
        """Whether several hold it: it must be copied before it is written."""
        return self._references[block] > 1

    def remember(self, block: int, digest: bytes) -> None:
        """Make the block findable by the chained hash of its content; the first block of equal content wins."""
        if digest not in self._block_of and block not in self._hash_of:
            self._hash_of[block] = digest
            self._block_of[digest] = block

    def find(self, digest: bytes) -> int | None:
        return self._block_of.get(digest)

    def known(self) -> list[bytes]:
        """Hashes of the blocks that can be found, those remembered last first. Any thread may ask."""
        return list(self._block_of)[::-1]  # one step under the GIL: the engine's thread changes it meanwhile
