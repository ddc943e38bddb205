"""Finds the blocks of a prompt's beginning that an earlier sequence computed.

A block's hash covers its tokens and the hash of the block before it (``prefix_hash``), so equal hashes mean equal
prefixes. A request's ``cache_salt`` stands before its first block: without the salt, nobody finds these blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.no_store import NoStore
from python_llm.engines.paged.sequence import Sequence
from python_llm.prefix_hash import block_hash, first_parent

__all__ = ["PrefixCache"]


class PrefixCache:
    """Matches and remembers full blocks; ``enabled`` False makes both do nothing. ``store`` has what left the pool."""

    def __init__(self, pool: BlockPool, block_size: int, *, enabled: bool = True, store: NoStore | None = None) -> None:
        self.store = store or NoStore()
        self._pool = pool
        self._block_size = block_size
        self._enabled = enabled
        self.tokens_seen = 0
        self.tokens_hit = 0

    def match(self, sequence: Sequence) -> list[int]:
        """Known blocks that continue the sequence's own blocks; at least one token is left to compute.

        None where the prompt's logits are wanted: they must be computed.
        """
        found: list[int] = []
        for digest in self._wanted(sequence):
            block = self._pool.find(digest)
            if block is None:
                break
            found.append(block)
        return found

    def adopt(self, sequence: Sequence, blocks: list[int]) -> None:
        """Give the sequence a reference to each matched block."""
        for block in blocks:
            self._pool.share(block)
        sequence.blocks.extend(blocks)
        self._count_found(sequence, len(blocks))
        self.store.used(sequence.hashes[len(sequence.blocks) - len(blocks) : len(sequence.blocks)])

    def read_ahead(self, sequence: Sequence) -> None:
        """Begin to fetch what a newcomer will want of the store."""
        self.store.read_ahead(sequence, (d for d in self._wanted(sequence) if self._pool.find(d) is None))

    def load(self, sequence: Sequence) -> None:
        """Fill free blocks, which the sequence needs anyway, with those of its own that the store has."""
        while contents := self.store.found(self._wanted(sequence)):
            first = len(sequence.blocks)
            sequence.blocks.extend(self._pool.allocate() for _ in contents)
            blocks = sequence.blocks[first:]
            self.store.fill(blocks, contents)
            for block, digest in zip(blocks, sequence.hashes[first:], strict=False):
                self._pool.remember(block, digest)
            self._count_found(sequence, len(blocks))
            self.adopt(sequence, self.match(sequence))

    def count(self, sequence: Sequence) -> None:
        """Count a prompt's hits, once, when it has been computed."""
        self.tokens_seen += len(sequence.request.prompt_ids)
        self.tokens_hit += sequence.cached

    def remember(self, sequence: Sequence, computed_before: int) -> None:
        """Make the blocks filled since ``computed_before`` findable."""
        if not self._enabled:
            return
        for index in range(computed_before // self._block_size, sequence.computed // self._block_size):
            digest = self._digest(sequence, index)
            self._pool.remember(sequence.blocks[index], digest)
            self.store.remembered(digest)

    def _wanted(self, sequence: Sequence) -> Iterator[bytes]:
        """Hashes of the full blocks that are still to be computed, if they need not be for their logits."""
        if not self._enabled or sequence.scores_prompt or sequence.computed != len(sequence.blocks) * self._block_size:
            return
        for index in range(len(sequence.blocks), (len(sequence.tokens) - 1) // self._block_size):
            yield self._digest(sequence, index)

    def _count_found(self, sequence: Sequence, blocks: int) -> None:
        sequence.computed += blocks * self._block_size
        if not sequence.preempted:  # blocks of its own, found again, are no hits
            sequence.blocks_reused += blocks
            cached = sequence.cached + blocks * self._block_size
            sequence.cached = min(cached, len(sequence.request.prompt_ids))  # resumed tokens are no prompt

    def _digest(self, sequence: Sequence, index: int) -> bytes:
        hashes, size = sequence.hashes, self._block_size
        while len(hashes) <= index:
            begin = len(hashes) * size
            parent = hashes[-1] if hashes else first_parent(sequence.request.cache_salt)
            hashes.append(block_hash(parent, sequence.tokens[begin : begin + size]))
        return hashes[index]
