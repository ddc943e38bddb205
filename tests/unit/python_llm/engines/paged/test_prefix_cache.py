"""The prefix cache: hits for equal prefixes alone, whole blocks alone, and always a token left to compute."""

from __future__ import annotations

from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from python_llm.engine import Event, GenerateRequest
from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.sequence import Sequence
from python_llm.prefix_hash import prefix_hashes

SIZE = 4
_arrivals = iter(range(1 << 30))


def nobody(event: Event, /) -> None:
    """A sink that drops everything."""


def sequence_of(tokens: list[int], resumed: list[int] | None = None) -> Sequence:
    request = GenerateRequest("x", tuple(tokens), 100, resume_ids=tuple(resumed or ()))
    return Sequence(request, nobody, next(_arrivals))


def compute(pool: BlockPool, cache: PrefixCache, sequence: Sequence, upto: int | None = None) -> None:
    """Fill the sequence's cache as the engine does, and remember it."""
    before = sequence.computed
    upto = len(sequence.tokens) if upto is None else upto
    while len(sequence.blocks) * SIZE < upto:
        sequence.blocks.append(pool.allocate())
    sequence.computed = upto
    cache.remember(sequence, before)


_tokens = st.lists(st.integers(0, 2), min_size=1, max_size=20)


@given(first=_tokens, second=_tokens)
def test_hits_are_the_common_whole_blocks(first: list[int], second: list[int]) -> None:
    pool = BlockPool(64)
    cache = PrefixCache(pool, SIZE)
    one = sequence_of(first)
    compute(pool, cache, one)
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    other = sequence_of(second)
    found = cache.match(other)
    assert len(found) == min(common // SIZE, (len(second) - 1) // SIZE)
    assert found == one.blocks[: len(found)]


@given(tokens=_tokens, salt=st.sampled_from(["", "mine", "für mich"]))
def test_a_router_names_the_blocks_as_the_cache_does(tokens: list[int], salt: str) -> None:
    """As docs/tensors.md tells it, step by step, and as `prefix_hashes` does."""
    told, parent = [], salt.encode("utf-8")
    for begin in range(0, len(tokens) // SIZE * SIZE, SIZE):
        ids = b"".join(token.to_bytes(4, "little", signed=True) for token in tokens[begin : begin + SIZE])
        parent = blake2b(parent + ids, digest_size=16).digest()
        told.append(parent)
    assert prefix_hashes(tokens, SIZE, salt) == told
    pool = BlockPool(64)
    sequence = Sequence(GenerateRequest("x", tuple(tokens), 100, cache_salt=salt), nobody, next(_arrivals))
    compute(pool, PrefixCache(pool, SIZE), sequence)
    assert pool.known() == told[::-1]


@given(first=_tokens, upto=st.integers(1, 20))
def test_only_what_was_computed_is_found(first: list[int], upto: int) -> None:
    pool = BlockPool(64)
    cache = PrefixCache(pool, SIZE)
    compute(pool, cache, sequence_of(first), min(upto, len(first)))
    found = cache.match(sequence_of([*first, 9]))
    assert len(found) == min(upto, len(first)) // SIZE


def test_adopted_blocks_are_shared_and_count_as_computed() -> None:
    pool = BlockPool(8)
    cache = PrefixCache(pool, SIZE)
    one, two = sequence_of([1] * 9), sequence_of([1] * 9)
    compute(pool, cache, one)
    cache.adopt(two, cache.match(two))
    assert (two.computed, two.cached, two.blocks) == (8, 8, one.blocks[:2])
    pool.release(reversed(one.blocks))
    assert pool.used_count == 2  # held by two alone
    pool.release(reversed(two.blocks))
    assert pool.used_count == 0
    assert cache.match(sequence_of([1] * 9)) == two.blocks  # free, and still findable


def test_a_sequence_in_the_middle_adopts_what_another_computed_meanwhile() -> None:
    pool = BlockPool(16)
    cache = PrefixCache(pool, SIZE)
    one, two = sequence_of(list(range(13))), sequence_of(list(range(13)))
    compute(pool, cache, two, SIZE)
    compute(pool, cache, one)
    assert cache.match(two) == one.blocks[1:3]
    compute(pool, cache, two, SIZE + 1)
    assert cache.match(two) == []  # not at a block's edge: its own block is half full


def test_equal_blocks_behind_different_ones_are_not_equal() -> None:
    pool = BlockPool(16)
    cache = PrefixCache(pool, SIZE)
    compute(pool, cache, sequence_of([1, 1, 1, 1, 5, 5, 5, 5]))
    assert cache.match(sequence_of([2, 2, 2, 2, 5, 5, 5, 5, 5])) == []
    assert cache.match(sequence_of([5, 5, 5, 5, 5])) == []


def test_disabled_it_finds_and_remembers_nothing() -> None:
    pool = BlockPool(8)
    cache = PrefixCache(pool, SIZE, enabled=False)
    compute(pool, cache, sequence_of([1] * 8))
    assert pool.known_count == 0
    assert cache.match(sequence_of([1] * 9)) == []


def test_hits_are_counted_once_for_each_prompt() -> None:
    pool = BlockPool(16)
    cache = PrefixCache(pool, SIZE)
    one, two = sequence_of([1] * 9), sequence_of([1] * 9)
    compute(pool, cache, one)
    cache.count(one)
    assert (cache.tokens_seen, cache.tokens_hit) == (9, 0)
    cache.adopt(two, cache.match(two))
    cache.count(two)
    assert (cache.tokens_seen, cache.tokens_hit) == (18, 8)


def test_a_preempted_sequence_finding_its_own_blocks_counts_no_hit() -> None:
    pool = BlockPool(16)
    cache = PrefixCache(pool, SIZE)
    one = sequence_of([1] * 9)
    compute(pool, cache, one)
    pool.release(reversed(one.blocks))
    one.forget_cache()
    cache.adopt(one, cache.match(one))
    assert (one.computed, one.cached) == (8, 0)


def test_resumed_tokens_are_found_and_are_no_prompt_tokens() -> None:
    pool = BlockPool(16)
    cache = PrefixCache(pool, SIZE)
    compute(pool, cache, sequence_of([1, 1, 1, 1, 1, 2, 2, 2, 2]))
    resumed = sequence_of([1, 1, 1, 1, 1], [2, 2, 2, 2])
    cache.adopt(resumed, cache.match(resumed))
    assert resumed.computed == 8
    cache.count(resumed)
    assert resumed.usage().cached_prompt_tokens <= resumed.usage().prompt_tokens
    assert cache.tokens_hit <= cache.tokens_seen
