"""Finds the blocks of a prompt's beginning that an earlier sequence computed.

A block's hash covers its tokens and the hash of the block before it, so equal hashes mean equal prefixes. A request's
``cache_salt`` stands before its first block: without the salt, nobody finds these blocks.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.sequence import Sequence

__all__ = ["PrefixCache"]


class PrefixCache:
    """Matches and remembers full blocks; ``enabled`` False makes both do nothing."""

    def __init__(self, pool: BlockPool, block_size: int, *, enabled: bool = True) -> None:
        self._pool = pool
        self._block_size = block_size
        self._enabled = enabled
        self.tokens_seen = 0
        self.tokens_hit = 0

    def match(self, sequence: Sequence) -> list[int]:
        """Known blocks that continue the sequence's own blocks; at least one token is left to compute.

        None where the prompt's logits are wanted: they must be computed.
        """
        if not self._enabled or sequence.scores_prompt or sequence.computed != len(sequence.blocks) * self._block_size:
            return []
        found: list[int] = []
        for index in range(len(sequence.blocks), (len(sequence.tokens) - 1) // self._block_size):
            block = self._pool.find(self._digest(sequence, index))
            if block is None:
                break
            found.append(block)
        return found

    def adopt(self, sequence: Sequence, blocks: list[int]) -> None:
        """Give the sequence a reference to each matched block."""
        for block in blocks:
            self._pool.share(block)
        sequence.blocks.extend(blocks)
        sequence.computed += len(blocks) * self._block_size
        if not sequence.preempted:  # blocks of its own, found again, are no hits
            sequence.blocks_reused += len(blocks)
            cached = sequence.cached + len(blocks) * self._block_size
            sequence.cached = min(cached, len(sequence.request.prompt_ids))  # resumed tokens are no prompt

    def count(self, sequence: Sequence) -> None:
        """Count a prompt's hits, once, when it has been computed."""
        self.tokens_seen += len(sequence.request.prompt_ids)
        self.tokens_hit += sequence.cached

    def remember(self, sequence: Sequence, computed_before: int) -> None:
        """Make the blocks filled since ``computed_before`` findable."""
        if not self._enabled:
            return
        for index in range(computed_before // self._block_size, sequence.computed // self._block_size):
            self._pool.remember(sequence.blocks[index], self._digest(sequence, index))

    def _digest(self, sequence: Sequence, index: int) -> bytes:
        hashes, size = sequence.hashes, self._block_size
        while len(hashes) <= index:
            begin = len(hashes) * size
            content = np.array(sequence.tokens[begin : begin + size], np.int32).tobytes()
            parent = hashes[-1] if hashes else sequence.request.cache_salt.encode()
            hashes.append(blake2b(parent + content, digest_size=16).digest())
        return hashes[index]
