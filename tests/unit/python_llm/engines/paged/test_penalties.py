"""Each penalty against transformers' processor or its formula, and their order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
)

from python_llm.engine import SamplingParams
from python_llm.engines.paged import penalties
from python_llm.engines.paged.sampler import Draw, adjusted

SIZE = 24  # few ids, so that histories repeat themselves
Scores = npt.NDArray[np.float32]

histories = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=60)
words = st.lists(
    st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=3).map(tuple), min_size=1, max_size=8, unique=True
)


@st.composite
def score_rows(draw: st.DrawFn) -> Scores:
    scores = np.random.default_rng(draw(st.integers(0, 10_000))).normal(0.0, 4.0, SIZE).astype(np.float32)
    scores[draw(st.integers(0, SIZE - 1))] = 0.0
    return scores


def theirs(processor: LogitsProcessor, history: list[int], scores: Scores) -> Scores:
    with torch.no_grad():
        out: Scores = processor(torch.tensor([history]), torch.from_numpy(scores.copy())[None])[0].numpy()
    return out


def biased(bias: dict[int, float]) -> LogitsProcessor:
    return SequenceBiasLogitsProcessor([[[token_id], value] for token_id, value in bias.items()])


def ours(scores: Scores, history: list[int], params: SamplingParams, **extras: object) -> Scores:
    before = scores.copy()
    changed = adjusted(scores, Draw(params, 0, len(history), history, **extras))  # type: ignore[arg-type]
    assert np.array_equal(scores, before)
    assert changed.dtype == np.float32
    return changed


@given(scores=score_rows(), history=histories, penalty=st.floats(0.1, 5.0))
def test_repetition_penalty_is_that_of_transformers(scores: Scores, history: list[int], penalty: float) -> None:
    expected = theirs(RepetitionPenaltyLogitsProcessor(penalty), history, scores)
    got = ours(scores, history, SamplingParams(repetition_penalty=penalty))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@given(scores=score_rows(), history=histories, size=st.integers(1, 5))
def test_no_repeat_ngrams_are_those_of_transformers(scores: Scores, history: list[int], size: int) -> None:
    expected = theirs(NoRepeatNGramLogitsProcessor(size), history, scores)
    assert np.array_equal(ours(scores, history, SamplingParams(no_repeat_ngram_size=size)), expected)


@given(scores=score_rows(), history=st.lists(st.integers(0, 3), min_size=3, max_size=9), data=st.data())
def test_bad_words_are_those_of_transformers(scores: Scores, history: list[int], data: st.DataObject) -> None:
    drawn = data.draw(words)
    tail = tuple(history[-2:])
    drawn += [word for word in ((*tail, 7), (tail[-1], 9)) if word not in drawn]  # some that do complete
    expected = theirs(NoBadWordsLogitsProcessor([list(word) for word in drawn]), history, scores)
    assert np.array_equal(ours(scores, history, SamplingParams(bad_words=tuple(drawn))), expected)


def test_a_bad_word_one_longer_than_all_tokens_is_banned_too() -> None:
    """transformers passes it over."""
    scores = np.zeros(SIZE, np.float32)
    assert np.isneginf(ours(scores, [4, 5], SamplingParams(bad_words=((4, 5, 6),)))[6])
    assert np.isfinite(theirs(NoBadWordsLogitsProcessor([[4, 5, 6]]), [4, 5], scores)[6])
    assert np.isfinite(ours(scores, [5], SamplingParams(bad_words=((4, 5, 6), ())))).all()
    assert penalties.bad_words(scores, (), ((4, 5),)) is scores


@given(
    scores=score_rows(),
    bias=st.dictionaries(st.integers(1, SIZE - 1), st.floats(-100, 100, width=32), min_size=1, max_size=6),
)
def test_logit_bias_is_that_of_transformers(scores: Scores, bias: dict[int, float]) -> None:
    expected = theirs(biased(bias), [1], scores)
    got = ours(scores, [1], SamplingParams(logit_bias=tuple(bias.items())))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@given(scores=score_rows(), prompt=st.integers(1, 5), output=st.integers(0, 6), wanted=st.integers(1, 6))
def test_forbidden_end_ids_are_min_new_tokens_of_transformers(
    scores: Scores, prompt: int, output: int, wanted: int
) -> None:
    history = [1] * (prompt + output)
    processor = MinNewTokensLengthLogitsProcessor(prompt, wanted, [3, 17], device="cpu")
    forbidden = frozenset({3, 17}) if output < wanted else frozenset[int]()
    assert np.array_equal(
        ours(scores, history, SamplingParams(), forbidden=forbidden), theirs(processor, history, scores)
    )


@given(
    scores=score_rows(),
    history=histories,
    prompt_count=st.integers(0, 60),
    presence=st.floats(-2, 2),
    frequency=st.floats(-2, 2),
)
def test_presence_and_frequency_count_the_output_alone(
    scores: Scores, history: list[int], prompt_count: int, presence: float, frequency: float
) -> None:
    counts = np.bincount(history[prompt_count:], minlength=SIZE)
    expected = scores - presence * (counts > 0) - frequency * counts
    params = SamplingParams(presence_penalty=presence, frequency_penalty=frequency)
    np.testing.assert_allclose(ours(scores, history, params, prompt_count=prompt_count), expected, rtol=1e-5, atol=1e-5)


@given(scores=score_rows(), allowed=st.frozensets(st.integers(0, SIZE - 1)))
def test_a_mask_leaves_what_its_bits_allow(scores: Scores, allowed: frozenset[int]) -> None:
    mask = np.array([sum(1 << i for i in allowed)], np.uint32)
    got = ours(scores, [1], SamplingParams(), mask=mask)
    assert {int(i) for i in np.flatnonzero(np.isfinite(got))} == allowed
    assert all(got[i] == scores[i] for i in allowed)


def test_a_mask_spans_words_and_the_ids_behind_it_are_not_allowed() -> None:
    scores = np.zeros(100, np.float32)
    mask = np.zeros(3, np.uint32)
    mask[0], mask[1], mask[2] = 1 << 31, 1, 1 << 31
    assert np.flatnonzero(np.isfinite(penalties.allow_only(scores, mask))).tolist() == [31, 32, 95]


@given(scores=score_rows(), history=histories, data=st.data())
def test_all_together_are_transformers_chain(scores: Scores, history: list[int], data: st.DataObject) -> None:
    """Penalties, then bias, then n-grams, bad words and forbidden ids."""
    penalty, size = data.draw(st.floats(0.5, 2.0)), data.draw(st.integers(1, 3))
    history = [1, 2, 3, *history]
    banned = data.draw(words)
    chain: list[LogitsProcessor] = [
        RepetitionPenaltyLogitsProcessor(penalty),
        biased({5: 2.5, 6: -1.0}),
        NoRepeatNGramLogitsProcessor(size),
        NoBadWordsLogitsProcessor([list(word) for word in banned]),
    ]
    expected = scores
    for processor in chain:
        expected = theirs(processor, history, expected)
    expected = expected.copy()
    expected[11] = -np.inf
    params = SamplingParams(
        repetition_penalty=penalty,
        logit_bias=((5, 2.5), (6, -1.0)),
        no_repeat_ngram_size=size,
        bad_words=tuple(banned),
    )
    np.testing.assert_allclose(ours(scores, history, params, forbidden=frozenset({11})), expected, rtol=1e-5)


def test_without_extras_the_scores_are_returned_as_they_are() -> None:
    scores = np.zeros(SIZE, np.float32)
    assert adjusted(scores, Draw(SamplingParams(temperature=0.7, top_k=3), 0, 2, [1, 2])) is scores


def test_scores_in_float64_stay_so() -> None:
    params = SamplingParams(repetition_penalty=2.0, presence_penalty=0.1, frequency_penalty=0.1, logit_bias=((1, 1.0),))
    changed = adjusted(np.full(SIZE, -1.0), Draw(params, 0, 2, [1, 2], forbidden=frozenset({5})))
    assert changed.dtype == np.float64
    np.testing.assert_allclose(changed[[0, 1, 2]], [-1.0, -1.2, -2.2], rtol=1e-12)


SEEN = np.array([1, SIZE, 2, 10**6], np.int64)
ONE_ROW: list[Callable[[Scores], Scores]] = [
    lambda scores: penalties.repetition_penalty(scores, SEEN, 2.0),
    lambda scores: penalties.presence_penalty(scores, SEEN, 2.0),
    lambda scores: penalties.frequency_penalty(scores, SEEN, 2.0),
    lambda scores: penalties.logit_bias(scores, ((1, 1.0), (10**6, 1.0), (2, 1.0))),
    lambda scores: penalties.no_repeat_ngrams(scores, SEEN, 1),
    lambda scores: penalties.bad_words(scores, (), ((1,), (10**6,), (2,))),
    lambda scores: penalties.forbid(scores, frozenset({1, 2, 10**6})),
]


@pytest.mark.parametrize("change", ONE_ROW)
def test_ids_beyond_the_vocabulary_are_passed_over(change: Callable[[Scores], Scores]) -> None:
    scores = np.ones(SIZE, np.float32)
    assert np.flatnonzero(change(scores) != scores).tolist() == [1, 2]
