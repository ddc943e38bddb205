"""The sampler against transformers' warpers, its noise, and the distribution it draws from."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from python_llm.engine import SamplingParams
from python_llm.engines.paged import sampler
from python_llm.engines.paged.sampler import Draw, sample, uniform

VOCABULARY = 1000
Logits = npt.NDArray[np.float32]


def logits_of(seed: int, size: int = VOCABULARY, scale: float = 3.0) -> Logits:
    drawn: Logits = np.random.default_rng(seed).normal(0.0, scale, size).astype(np.float32)
    return drawn


def ids_of(rows: Logits, draws: list[Draw]) -> list[int]:
    return [choice.id for choice in sample(rows, draws)]


def warped(logits: Logits, params: SamplingParams) -> npt.NDArray[np.float64]:
    """Probabilities by transformers, in the order its generate applies the warpers."""
    warpers: list[LogitsProcessor] = [TemperatureLogitsWarper(params.temperature)]
    if params.top_k:
        warpers.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1.0:
        warpers.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        warpers.append(MinPLogitsWarper(params.min_p))
    scores = torch.from_numpy(logits.astype(np.float64))[None]
    for warper in warpers:
        scores = warper(torch.zeros((1, 0), dtype=torch.long), scores)
    probabilities: npt.NDArray[np.float64] = torch.softmax(scores, -1)[0].numpy()
    return probabilities


def ours(logits: Logits, params: SamplingParams) -> npt.NDArray[np.float64]:
    ids, weights = sampler._candidates(logits, params)
    assert len(set(ids.tolist())) == len(ids)
    dense = np.zeros(len(logits))
    dense[ids] = weights / weights.sum()
    return dense


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "min_p"),
    list(itertools.product([0.3, 1.0, 2.5], [0, 1, 7, 300, VOCABULARY, 5000], [1.0, 0.95, 0.5, 0.01], [0.0, 0.1, 1.0])),
)
def test_candidates_are_those_of_transformers(temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    for seed in range(3):
        logits = logits_of(seed)
        expected, got = warped(logits, params), ours(logits, params)
        assert np.array_equal(got > 0, expected > 0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("scale", "look"), [(3.0, 256), (2.5, 4096), (0.1, 12_000)])
def test_a_nucleus_is_found_at_each_look(scale: float, look: int) -> None:
    logits, params = logits_of(5, 12_000, scale), SamplingParams(temperature=0.6 if look == 256 else 1.0, top_p=0.9)
    expected, got = warped(logits, params), ours(logits, params)
    assert look / 50 < (got > 0).sum() <= look
    assert np.array_equal(got > 0, expected > 0)


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 600),
    scale=st.sampled_from([0.01, 1.0, 10.0]),  # flat ones need the nucleus' second look
    temperature=st.floats(0.05, 5.0),
    top_k=st.integers(0, 700),
    top_p=st.floats(0.05, 1.0),
    min_p=st.floats(0.0, 1.0),
)
def test_candidates_are_those_of_transformers_anywhere(
    seed: int, size: int, scale: float, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    logits = logits_of(seed, size, scale)
    expected, got = warped(logits, params), ours(logits, params)
    # Sums are rounded in another order: a token whose cumulated mass is within 1e-9 of a bound may fall either way.
    differing = (got > 0) != (expected > 0)
    assert differing.sum() <= 1
    if not differing.any():
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_a_flat_distribution_needs_the_second_look() -> None:
    params = SamplingParams(temperature=1.0, top_p=0.9)
    logits = logits_of(0, 4000, 0.01)
    got = ours(logits, params)
    assert (got > 0).sum() > sampler._FIRST_LOOK
    assert np.array_equal(got > 0, warped(logits, params) > 0)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.0, top_k=5, seed=3),
        SamplingParams(temperature=1.0, top_k=1),
        SamplingParams(temperature=1.0, top_p=0.0),
        SamplingParams(temperature=1.0, min_p=1.0),
        SamplingParams(temperature=1e-45),
    ],
)
def test_greedy_is_the_largest_logit(params: SamplingParams) -> None:
    rows = np.stack([logits_of(seed) for seed in range(8)])
    assert ids_of(rows, [Draw(params, 0, p) for p in range(8)]) == rows.argmax(axis=1).tolist()


def test_the_logits_are_not_changed() -> None:
    rows = np.stack([logits_of(seed) for seed in range(2)])
    before = rows.copy()
    forbidden = frozenset({int(rows[0].argmax())})
    sample(
        rows,
        [
            Draw(SamplingParams(), 0, 0, forbidden=forbidden),
            Draw(SamplingParams(temperature=1.0), 0, 0, forbidden=forbidden),
        ],
    )
    assert np.array_equal(rows, before)


def chi_square(logits: Logits, params: SamplingParams, draws: list[Draw]) -> float:
    """The statistic over its degrees of freedom."""
    expected = ours(logits, params)
    ids = ids_of(np.tile(logits, (len(draws), 1)), draws)
    counts = np.bincount(ids, minlength=len(logits))
    assert not counts[expected == 0].any()
    kept = expected > 0
    wanted = expected[kept] * len(draws)
    return float(((counts[kept] - wanted) ** 2 / wanted).sum() / max(1, kept.sum() - 1))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0),
        SamplingParams(temperature=0.7, top_k=5),
        SamplingParams(temperature=1.5, top_p=0.8),
        SamplingParams(temperature=1.0, min_p=0.2),
        SamplingParams(temperature=1.2, top_k=10, top_p=0.9, min_p=0.05),
    ],
)
def test_draws_follow_the_distribution(params: SamplingParams) -> None:
    """Over positions, over seeds and over sequence indices: the noise must be even along each."""
    logits = logits_of(1, 12, 1.0)
    count = 6000
    with_seed = [SamplingParams(params.temperature, params.top_k, params.top_p, params.min_p, s) for s in range(count)]
    for draws in (
        [Draw(with_seed[7], 0, position) for position in range(count)],
        [Draw(each, 0, 5) for each in with_seed],
        [Draw(with_seed[7], index, 5) for index in range(count)],
    ):
        # 99.9 % of chi-square / df with 11 degrees stay under 2.84; with 3 under 5.4. The seeds are fixed.
        assert chi_square(logits, params, draws) < 2.9


_seeds = st.integers(0, 2**64 - 1)


@given(seed=_seeds, index=st.integers(0, 2**31), position=st.integers(0, 2**31))
def test_noise_is_a_function_of_seed_index_and_position(seed: int, index: int, position: int) -> None:
    noise = uniform(seed, index, position)
    assert 0.0 <= noise < 1.0
    assert noise == uniform(seed, index, position)
    assert noise != uniform(seed ^ 1, index, position)
    assert noise != uniform(seed, index + 1, position)
    assert noise != uniform(seed, index, position + 1)


def test_every_bit_of_the_seed_counts() -> None:
    noises = {uniform(seed, 0, 0) for seed in [0, 2**64 - 1, *(1 << bit for bit in range(64))]}
    assert len(noises) == 66


@given(st.data())
def test_neighbours_in_the_batch_change_nothing(data: st.DataObject) -> None:
    params = st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.0, 0.8, 1.5]),
        top_k=st.integers(0, 20),
        top_p=st.floats(0.1, 1.0),
        min_p=st.floats(0.0, 0.5),
        seed=_seeds,
    )
    forbidden = st.frozensets(st.integers(0, 49), max_size=3)
    draw = st.builds(Draw, params, st.integers(0, 3), st.integers(0, 4000), forbidden=forbidden)
    draws = data.draw(st.lists(draw, min_size=1, max_size=6))
    rows = np.stack([logits_of(seed, 50) for seed in range(len(draws))])
    together = ids_of(rows, draws)
    alone = [ids_of(rows[i : i + 1], [each])[0] for i, each in enumerate(draws)]
    assert together == alone
    assert not any(token in each.forbidden for token, each in zip(together, draws, strict=True))


def test_forbidden_ids_are_never_drawn_though_they_are_likeliest() -> None:
    logits = np.zeros(6, np.float32)
    logits[[2, 4]] = 50.0
    for params in (SamplingParams(), SamplingParams(temperature=1.0, top_k=3), SamplingParams(temperature=1.0)):
        draws = [Draw(params, 0, position, forbidden=frozenset({2, 4})) for position in range(200)]
        assert not {2, 4} & set(ids_of(np.tile(logits, (200, 1)), draws))


def test_no_row_is_no_token() -> None:
    assert sample(np.zeros((0, 5), np.float32), []) == []
