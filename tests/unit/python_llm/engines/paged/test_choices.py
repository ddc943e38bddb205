"""Rows from which nothing can be chosen, and rows beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.engine import SamplingParams
from python_llm.engines.paged.sampler import BROKEN_LOGITS, NOTHING_ALLOWED, Choice, Draw, adjusted, sample

Logits = npt.NDArray[np.float32]


def logits_of(seed: int, size: int, scale: float = 3.0) -> Logits:
    drawn: Logits = np.random.default_rng(seed).normal(0.0, scale, size).astype(np.float32)
    return drawn


def ids_of(rows: Logits, draws: list[Draw]) -> list[int]:
    return [choice.id for choice in sample(rows, draws)]


GREEDY, SAMPLED = SamplingParams(), SamplingParams(temperature=1.0, seed=3)
NOTHING_LEFT: list[Draw] = [
    draw
    for params in (GREEDY, SAMPLED)
    for draw in (
        Draw(params, 0, 0, forbidden=frozenset(range(5))),
        Draw(params, 0, 0, mask=np.zeros(1, np.uint32)),
        Draw(replace(params, logit_bias=tuple((i, -np.inf) for i in range(5))), 0, 0),
        Draw(replace(params, bad_words=tuple((i,) for i in range(5))), 0, 0),
        Draw(replace(params, bad_words=((0,), (1,))), 0, 0, forbidden=frozenset({2}), mask=np.array([7], np.uint32)),
    )
]


@pytest.mark.parametrize("draw", NOTHING_LEFT)
def test_a_row_with_nothing_allowed_says_so_beside_its_neighbours(draw: Draw) -> None:
    rows = np.stack([logits_of(seed, 5) for seed in range(3)])
    draws = [Draw(GREEDY, 0, 0), replace(draw, log_probs=True, top_log_probs=2), Draw(SAMPLED, 0, 0)]
    found = sample(rows, draws)
    assert found[1] == Choice(NOTHING_ALLOWED)
    assert found[0].id == ids_of(rows[:1], draws[:1])[0]
    assert found[2].id == ids_of(rows[2:], draws[2:])[0]


@pytest.mark.parametrize(
    "params", [GREEDY, SAMPLED, replace(SAMPLED, top_k=2), replace(GREEDY, logit_bias=((1, 1.0),))]
)
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_broken_row_says_so_beside_its_neighbours(params: SamplingParams, broken: float) -> None:
    rows = np.stack([logits_of(seed, 5) for seed in range(3)])
    rows[1, 3] = broken
    draws = [Draw(params, 0, 0, (1,)) for _ in range(3)]
    assert [choice.id < 0 for choice in sample(rows, draws)] == [False, True, False]
    assert sample(rows, draws)[1] == Choice(BROKEN_LOGITS)


def test_a_row_of_minus_infinities_allows_nothing() -> None:
    rows = np.full((2, 5), -np.inf, np.float32)
    rows[1, 2] = 0.0
    for params in (GREEDY, SAMPLED):
        assert ids_of(rows, [Draw(params, 0, 0)] * 2) == [NOTHING_ALLOWED, 2]


def test_penalties_that_overflow_break_their_own_row_alone() -> None:
    rows = np.stack([logits_of(seed, 5, 1e37) for seed in range(2)])
    draws = [Draw(replace(GREEDY, repetition_penalty=1e-30), 0, 0, range(5)), Draw(GREEDY, 0, 0)]
    assert ids_of(rows, draws)[0] == BROKEN_LOGITS
    assert ids_of(rows, draws)[1] == rows[1].argmax()


@given(
    params=st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.0, 1.0]),
        top_k=st.integers(0, 10),
        top_p=st.floats(0.1, 1.0),
        seed=st.integers(0, 2**64 - 1),
        no_repeat_ngram_size=st.integers(0, 2),
        bad_words=st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=2).map(tuple), max_size=20).map(tuple),
    ),
    tokens=st.lists(st.integers(0, 49), max_size=40),
    allowed=st.integers(0, 2**50 - 1),
)
def test_what_is_ruled_out_is_never_chosen(params: SamplingParams, tokens: list[int], allowed: int) -> None:
    mask = np.array([allowed & 0xFFFFFFFF, allowed >> 32], np.uint32)
    draw = Draw(params, 0, len(tokens), tokens, forbidden=frozenset({0, 49}), mask=mask)
    rows = logits_of(1, 50)[None]
    left = np.flatnonzero(np.isfinite(adjusted(rows[0], draw)))
    (token_id,) = ids_of(rows, [draw])
    assert token_id in left if len(left) else token_id == NOTHING_ALLOWED


def test_a_greedy_neighbour_never_changes_a_sampled_rows_noise() -> None:
    rows = np.stack([logits_of(seed, 50) for seed in range(4)])
    sampled = Draw(SAMPLED, 1, 77, (1, 2, 3), 1)
    neighbours = [Draw(GREEDY, 0, 5), Draw(replace(SAMPLED, seed=9), 0, 77), Draw(replace(GREEDY, top_k=3), 0, 77)]
    alone = ids_of(rows[3:], [sampled])
    for count in range(4):
        assert ids_of(rows[3 - count :], [*neighbours[3 - count :], sampled])[-1:] == alone
