"""Log-probabilities against torch's log_softmax."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from hypothesis import given
from hypothesis import strategies as st

from python_llm.engine import SamplingParams
from python_llm.engines.paged.log_probs import prompt_log_probs, token_log_prob
from python_llm.engines.paged.sampler import Draw, sample

Rows = npt.NDArray[np.float32]


def rows_of(seed: int, count: int, size: int, scale: float) -> Rows:
    rows: Rows = np.random.default_rng(seed).normal(0.0, scale, (count, size)).astype(np.float32)
    return rows


def by_torch(rows: Rows) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = torch.log_softmax(torch.from_numpy(rows).double(), -1).numpy()
    return found


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 300),
    top=st.integers(0, 320),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e30]),
)
def test_log_probs_are_those_of_torch_and_alternatives_are_sorted(seed: int, size: int, top: int, scale: float) -> None:
    rows = rows_of(seed, 3, size, scale)
    ids = np.random.default_rng(seed).integers(0, size, 3).tolist()
    expected = by_torch(rows)
    found, alternatives = prompt_log_probs(rows, ids, top)
    np.testing.assert_allclose(found, expected[range(3), ids], rtol=1e-12, atol=1e-12)
    assert len(alternatives) == (3 if top else 0)
    for row, each in zip(expected, alternatives, strict=False):
        assert list(each) == sorted(each, key=lambda pair: (-pair[1], pair[0]))
        assert len({token_id for token_id, _ in each}) == len(each) == min(top, size)
        np.testing.assert_allclose([p for _, p in each], np.sort(row)[::-1][:top], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose([p for _, p in each], row[[i for i, _ in each]], rtol=1e-12, atol=1e-12)


def test_equal_alternatives_come_by_id() -> None:
    row = np.array([0.0, 2.0, 1.0, 2.0, 1.0, 1.0], np.float32)
    _, top = token_log_prob(row, 0, 4)
    assert [token_id for token_id, _ in top] == [1, 3, 2, 4]


def test_ids_without_probability_are_minus_infinity() -> None:
    row = np.array([0.0, -np.inf, 0.0], np.float32)
    assert token_log_prob(row, 1, 0)[0] == -np.inf
    assert np.isclose(token_log_prob(row, 0, 0)[0], np.log(0.5))


def test_rows_that_are_broken_break_nothing() -> None:
    assert np.isnan(token_log_prob(np.array([0.0, np.nan, 1.0], np.float32), 0, 2)[0])
    assert np.isnan(token_log_prob(np.array([np.inf, 0.0, 1.0], np.float32), 0, 2)[0])


def test_a_choice_tells_the_models_own_log_probs_whatever_the_params() -> None:
    rows = rows_of(1, 1, 50, 2.0)
    expected = by_torch(rows)[0]
    params = SamplingParams(temperature=0.3, top_k=4, repetition_penalty=2.0, logit_bias=((3, 20.0),), seed=5)
    (choice,) = sample(rows, [Draw(params, 0, 3, (1, 2, 3), log_probs=True, top_log_probs=5)])
    assert choice.id == 3
    assert choice.log_prob is not None
    assert np.isclose(choice.log_prob, expected[3], rtol=1e-12)
    assert [i for i, _ in choice.top] == np.argsort(-expected, kind="stable")[:5].tolist()
    (quiet,) = sample(rows, [Draw(params, 0, 3, (1, 2, 3), top_log_probs=5)])
    assert (quiet.log_prob, quiet.top) == (None, ())
