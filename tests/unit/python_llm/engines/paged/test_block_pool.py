"""The pool's laws: free plus referenced is total, no block is both; blocks that nobody can find are reused first, then
those whose last use is longest ago; and what is forgotten is told before it is gone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from python_llm.engines.paged.block_pool import BlockPool

TOTAL = 6


class PoolMachine(RuleBasedStateMachine):
    """Random operations beside a plain model of references, order of last use and contents."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.references: Counter[int] = Counter()
        self.free = list(range(TOTAL))  # worth least first
        self.known: dict[bytes, int] = {}
        self.forgotten: list[tuple[int, bytes]] = []
        self.pool.forgetting = self.forget

    def forget(self, block: int, digest: bytes) -> None:
        assert self.pool.find(digest) == block  # it is all still there
        self.forgotten.append((block, digest))

    @precondition(lambda self: self.free)
    @rule()
    def allocate(self) -> None:
        self.forgotten.clear()
        block = self.pool.allocate()
        assert block == self.free.pop(0)
        assert self.forgotten == [(b, digest) for digest, b in self.known.items() if b == block]
        self.references[block] = 1
        self.known = {digest: b for digest, b in self.known.items() if b != block}

    @precondition(lambda self: not self.free)
    @rule()
    def allocate_from_nothing(self) -> None:
        with pytest.raises(IndexError):
            self.pool.allocate()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def share_what_is_known(self, data: st.DataObject) -> None:
        digest = data.draw(st.sampled_from(sorted(self.known)))
        block = self.pool.find(digest)
        assert block == self.known[digest]
        self.pool.share(block)
        self.references[block] += 1
        if block in self.free:
            self.free.remove(block)

    @precondition(lambda self: +self.references)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        held = sorted((+self.references).elements())
        blocks = data.draw(st.permutations(held))[: data.draw(st.integers(1, len(held)))]
        self.pool.release(blocks)
        for block in blocks:
            self.references[block] -= 1
            if not self.references[block]:
                self.free.insert(len(self.free) if block in self.known.values() else 0, block)

    @precondition(lambda self: +self.references)
    @rule(data=st.data(), digest=st.binary(min_size=1, max_size=1))
    def remember(self, data: st.DataObject, digest: bytes) -> None:
        block = data.draw(st.sampled_from(sorted(+self.references)))
        self.pool.remember(block, digest)
        if digest not in self.known and block not in self.known.values():
            self.known[digest] = block

    @precondition(lambda self: self.free)
    @rule(data=st.data())
    def release_too_often(self, data: st.DataObject) -> None:
        with pytest.raises(ValueError, match="more often than taken"):
            self.pool.release([data.draw(st.sampled_from(self.free))])

    @invariant()
    def blocks_conserve(self) -> None:
        held = set(+self.references)
        assert held.isdisjoint(self.free)
        assert held | set(self.free) == set(range(TOTAL))
        assert self.pool.free_count == len(self.free)
        assert self.pool.used_count == len(held)
        assert [block for block in range(TOTAL) if self.pool.is_free(block)] == sorted(self.free)

    @invariant()
    def contents_are_found(self) -> None:
        assert self.pool.known_count == len(self.known)
        assert all(self.pool.find(digest) == block for digest, block in self.known.items())
        assert self.pool.find(b"never remembered") is None


TestPool = PoolMachine.TestCase


def test_a_block_shared_while_free_is_taken_out_of_the_free_ones() -> None:
    pool = BlockPool(2)
    block = pool.allocate()
    pool.remember(block, b"prefix")
    pool.release([block])
    pool.share(block)
    assert pool.allocate() != block
    pool.release([block])
    assert pool.find(b"prefix") == block


def test_the_first_block_of_equal_content_wins() -> None:
    pool = BlockPool(2)
    first, second = pool.allocate(), pool.allocate()
    pool.remember(first, b"same")
    pool.remember(second, b"same")
    assert pool.find(b"same") == first
    pool.release([second])
    assert pool.allocate() == second  # to forget the second does not forget the first
    assert pool.find(b"same") == first
