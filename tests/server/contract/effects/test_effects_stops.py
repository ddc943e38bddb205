"""Where an answer ends, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from python_llm.tokenizer import Tokenizer
from triton_llm_client import Completion

Ask = Callable[..., Completion]
FRANCE = "The capital of France is"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def plain(ask: Ask) -> Completion:
    return ask(FRANCE, max_tokens=24, ignore_eos=True)


def test_a_stop_word_is_cut_or_kept(ask: Ask, plain: Completion) -> None:
    word = plain.text[3:9]  # across tokens
    cut, kept = (
        ask(FRANCE, max_tokens=24, stop_words=["never", word], include_stop_str_in_output=keep, return_stop_reason=True)
        for keep in (False, True)
    )
    assert cut.text == plain.text[: plain.text.index(word)]
    assert kept.text == cut.text + word
    assert (cut.finish_reason, cut.stop_reason) == (kept.finish_reason, kept.stop_reason) == ("stop", word)


def test_the_stop_word_that_ends_first_wins(ask: Ask, plain: Completion) -> None:
    early, late = plain.text[2:4], plain.text[8:12]
    assert ask(FRANCE, max_tokens=24, stop_words=[late, early]).text == plain.text[: plain.text.index(early)]


def test_min_tokens_beats_every_stop(ask: Ask, plain: Completion) -> None:
    stops: list[dict[str, Any]] = [
        {"stop_words": [plain.text[:3]]},
        {"stop_token_ids": [plain.output_ids[0]]},
        {"end_id": plain.output_ids[0]},
    ]
    for stop in stops:
        assert ask(FRANCE, max_tokens=24, **stop).output_tokens <= 1
        assert ask(FRANCE, max_tokens=24, min_tokens=6, **stop).output_tokens >= 6


def test_token_ids_that_end(ask: Ask, plain: Completion) -> None:
    third = plain.output_ids[2]
    place = plain.output_ids.index(third)
    for stop in ({"stop_token_ids": [third, 5]}, {"end_id": third}, {"stop_token_ids": [third], "ignore_eos": True}):
        answer = ask(FRANCE, max_tokens=24, return_stop_reason=True, pad_id=0, **stop)
        assert answer.output_ids == plain.output_ids[:place]
        assert (answer.finish_reason, answer.stop_reason) == ("stop", str(third))


def test_the_models_own_end(ask: Ask) -> None:
    ended = ask(QUESTION, max_tokens=40, return_stop_reason=True)
    assert (ended.finish_reason, ended.stop_reason) == ("stop", "2")
    assert "Paris" in ended.text
    for on in ({"ignore_eos": True}, {"end_id": -1}, {"end_id": 10**6}):
        answer = ask(QUESTION, max_tokens=40, **on)
        assert (answer.finish_reason, answer.output_tokens) == ("length", 40)
        assert answer.output_ids[: len(ended.output_ids)] == ended.output_ids


def test_max_tokens_and_timeout(ask: Ask) -> None:
    assert ask(FRANCE, max_tokens=5, ignore_eos=True).output_tokens == 5
    late = ask(FRANCE, max_tokens=2000, ignore_eos=True, timeout=200_000)
    assert late.finish_reason == "timeout"
    assert late.output_tokens < 2000


def test_messages_text_and_ids_are_one_prompt(ask: Ask, plain: Completion, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(FRANCE, special_tokens=False)
    assert ask(ids, max_tokens=24, ignore_eos=True).output_ids == plain.output_ids
    assert plain.input_tokens == len(ids)
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    assert ask(parts, max_tokens=12).text == ask(QUESTION, max_tokens=12).text


def test_the_prompt_may_be_repeated(ask: Ask, plain: Completion) -> None:
    echoed = ask(FRANCE, max_tokens=24, ignore_eos=True, exclude_input_in_output=False)
    assert echoed.text == FRANCE + plain.text
    assert echoed.output_ids == plain.output_ids


def test_a_resumed_answer_goes_on_as_if_it_had_not_ended(exact: Ask) -> None:
    params: dict[str, Any] = {
        "max_tokens": 16,
        "ignore_eos": True,
        "frequency_penalty": 0.5,
        "temperature": 0.7,
        "seed": 5,
    }
    whole = exact("The ferry left", **params)
    for cut in (1, 7, 15):
        rest = exact("The ferry left", resume_ids=whole.output_ids[:cut], **params)
        assert rest.output_ids == whole.output_ids[cut:]
        assert rest.output_tokens == 16
