"""Penalties, bias and bad words do what their formulas say.

Log-probs are the model's own, so that what a formula takes from them, or adds, tells which token greedy chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from python_llm.tokenizer import Tokenizer
from triton_llm_client import Completion

Ask = Callable[..., Completion]
LOOP = "1 2 3 1 2 3 1 2 3 1 2"
TOLD = {"max_tokens": 24, "ignore_eos": True, "return_log_probs": True, "top_log_probs": 20}
NEAR = 0.02  # sampler's float32 against ours


def assert_chosen_by(answer: Completion, change: Callable[[int, Counter[int]], float]) -> None:
    """Each token is the best of its alternatives once ``change(token, tokens so far)`` is added."""
    seen: Counter[int] = Counter()
    for token, top in zip(answer.output_ids, answer.top_log_probs, strict=True):
        scores = {one.id: one.log_prob + change(one.id, seen) for one in top}
        assert scores[token] >= max(scores.values()) - NEAR, (token, scores)
        seen[token] += 1


@pytest.mark.parametrize(
    ("params", "change"),
    [
        ({"presence_penalty": 1.5}, lambda token, seen: -1.5 * (seen[token] > 0)),
        ({"frequency_penalty": 0.75}, lambda token, seen: -0.75 * seen[token]),
        ({"presence_penalty": -1.0, "frequency_penalty": 0.25}, lambda t, seen: 1.0 * (seen[t] > 0) - 0.25 * seen[t]),
    ],
)
def test_penalties_are_subtracted(
    ask: Ask, params: Mapping[str, float], change: Callable[[int, Counter[int]], float]
) -> None:
    answer = ask("The capital of France is", **params, **TOLD)
    assert answer.output_ids != ask("The capital of France is", max_tokens=24, ignore_eos=True).output_ids
    assert_chosen_by(answer, change)


def test_a_repetition_penalty_counts_the_prompt_too(ask: Ask, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(LOOP, special_tokens=False)
    plain, penalised = (ask(ids, max_tokens=8, repetition_penalty=p) for p in (1.0, 5.0))
    assert set(plain.output_ids) & set(ids)
    assert not set(penalised.output_ids) & set(ids)


def test_no_ngram_repeats_in_prompt_and_output(ask: Ask, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(LOOP, special_tokens=False)
    answer = ask(ids, no_repeat_ngram_size=2, max_tokens=24, ignore_eos=True)
    pairs = Counter(pairwise(ids))
    both = [*ids, *answer.output_ids]
    new = Counter(pairwise(both)) - pairs
    assert all(count == 1 and pair not in pairs for pair, count in new.items())


def test_a_bias_is_added(ask: Ask) -> None:
    first = ask("The capital of France is", **TOLD)
    best, second = first.top_log_probs[0][:2]
    forbidden = ask("The capital of France is", logit_bias={best.id: -100}, **TOLD)
    assert best.id not in forbidden.output_ids
    assert forbidden.output_ids[0] == second.id
    assert set(ask("The capital of France is", max_tokens=4, logit_bias={best.id: 100}).output_ids) == {best.id}
    bias = {best.id: 3, second.id: -3}
    assert_chosen_by(ask(LOOP, logit_bias=bias, **TOLD), lambda token, _: bias.get(token, 0))


def test_bad_words_are_not_generated(ask: Ask) -> None:
    assert "Paris" in ask("The capital of France is", max_tokens=12).text
    answer = ask("The capital of France is", max_tokens=12, bad_words=["Paris", "capital"])
    assert "Paris" not in answer.text
    assert "capital" not in answer.text
