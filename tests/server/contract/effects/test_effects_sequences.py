"""Several sequences of a request, and beams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton_llm_client import Client, Completion, GenerateParams

Ask = Callable[..., Completion]
STORY = "Once upon a time there was"
SEVERAL: dict[str, Any] = {
    "num_return_sequences": 3,
    "temperature": 1.0,
    "seed": 5,
    "max_tokens": 10,
    "ignore_eos": True,
}


def test_a_seeded_request_makes_different_and_repeatable_sequences(exact: Ask, ask: Ask) -> None:
    for of in (exact, ask):
        answer = of(STORY, return_log_probs=True, **SEVERAL)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        assert len({choice.text for choice in answer.choices}) == 3
        assert [len(choice.log_probs) for choice in answer.choices] == [10] * 3
        assert answer.output_tokens == 30
    again = exact(STORY, **SEVERAL)
    assert [c.output_ids for c in again.choices] == [c.output_ids for c in exact(STORY, **SEVERAL).choices]


def test_the_first_sequence_is_that_of_a_request_of_one(exact: Ask) -> None:
    alone = exact(STORY, **{**SEVERAL, "num_return_sequences": 1})
    assert exact(STORY, **SEVERAL).choices[0].output_ids == alone.output_ids


def test_greedy_sequences_are_equal(exact: Ask) -> None:
    assert len({choice.text for choice in exact(STORY, num_return_sequences=3, max_tokens=8).choices}) == 1


def test_streamed_deltas_say_whose_they_are(client: Client, ask: Ask) -> None:
    texts = ["", "", ""]
    ends: list[int] = []
    for chunk in client.stream(STORY, GenerateParams(**SEVERAL)):
        texts[chunk.sequence_index] += chunk.text
        ends += [chunk.sequence_index] * (chunk.finish_reason is not None)
    assert sorted(ends) == [0, 1, 2]
    assert texts == [choice.text for choice in ask(STORY, **SEVERAL).choices]


def test_one_of_several_is_resumed_by_its_index(exact: Ask) -> None:
    whole = exact(STORY, **SEVERAL).choices[2]
    alone = {**SEVERAL, "num_return_sequences": 1}
    rest = exact(STORY, resume_ids=whole.output_ids[:4], resume_index=2, **alone)
    assert rest.choices[0].index == 2
    assert rest.output_ids == whole.output_ids[4:]


def test_beams_come_best_first_and_beat_greedy(exact: Ask, ask: Ask) -> None:
    told: dict[str, Any] = {"max_tokens": 8, "ignore_eos": True, "return_log_probs": True}
    for of in (exact, ask):
        beams = of(STORY, beam_width=3, **told)
        sums = [sum(choice.log_probs) for choice in beams.choices]
        assert len({choice.output_ids for choice in beams.choices}) == 3
        assert sums == sorted(sums, reverse=True)
        assert sums[0] >= sum(of(STORY, **told).log_probs) - 0.05
    best = exact(STORY, beam_width=3, num_return_sequences=2, **told)
    assert [c.output_ids for c in best.choices] == [
        c.output_ids for c in exact(STORY, beam_width=3, **told).choices[:2]
    ]


def test_a_length_penalty_weighs_long_against_short(exact: Ask) -> None:
    ends = list(exact(STORY, max_tokens=12, beam_width=4).choices[0].output_ids[3:6])
    lengths = []
    for weight in (-2.0, 1.0, 4.0):
        beams = exact(STORY, length_penalty=weight, max_tokens=12, beam_width=4, stop_token_ids=ends)
        lengths.append(sum(len(choice.output_ids) for choice in beams.choices))
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_early_stopping_ends_a_search_with_the_first_finished_beams(exact: Ask) -> None:
    ends = list(exact(STORY, max_tokens=12, beam_width=4).choices[0].output_ids[3:6])
    params: dict[str, Any] = {"max_tokens": 24, "beam_width": 2, "stop_token_ids": ends, "return_log_probs": True}
    early, late = (exact(STORY, early_stopping=early, length_penalty=2.0, **params) for early in (True, False))
    lengths = [max(len(choice.output_ids) for choice in answer.choices) for answer in (early, late)]
    assert lengths[0] <= lengths[1]
    assert [choice.finish_reason for choice in early.choices] == ["stop", "stop"]
