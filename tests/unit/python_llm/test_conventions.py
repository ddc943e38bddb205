"""The conventions of widely used clients: what their inputs become."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hand_engine import ABLE
from python_llm.admission import Admission, Admitted
from python_llm.contract import GENERATOR
from python_llm.engine import BeamParams, Capabilities, EngineLimits, Guide
from python_llm.errors import ServeError
from python_llm.request import read_request
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from request_inputs import tensors_of

LIMITS = EngineLimits(max_sequence_len=64, vocab_size=512, max_running=4, cache_tokens=1000)
END_IDS = frozenset({0, 2})

ids = {"input_ids": [5, 6, 7]}


def admit(
    tokenizer: Tokenizer, values: dict[str, Any], parameters: dict[str, Any] | None = None, **serving: Any
) -> Admitted:
    admission = Admission(tokenizer, LIMITS, ABLE, ServingConfig(**serving), tuple(END_IDS))
    return admission.admit(read_request(tensors_of({**ids, **values}), json.dumps(parameters or {}), GENERATOR), "x")


Read = Callable[[Admitted], Any]
sampling: dict[str, Read] = {
    name: lambda a, name=name: getattr(a.request.sampling, name)  # type: ignore[misc]
    for name in (
        *("greedy", "temperature", "top_k", "top_p", "seed", "repetition_penalty", "presence_penalty"),
        *("frequency_penalty", "no_repeat_ngram_size", "logit_bias", "bad_words"),
    )
}
asked: dict[str, Read] = {
    name: lambda a, name=name: getattr(a.request, name)  # type: ignore[misc]
    for name in (
        *("max_tokens", "min_tokens", "end_ids", "stop_ids", "priority", "tenant", "sequence_count", "first_index"),
        *("beam", "log_probs", "top_log_probs", "prompt_log_probs", "guide", "cache_salt", "adapter"),
    )
}


def words(admitted: Admitted) -> set[str]:
    return {word for word in admitted.stop_words.matched if word}


GOOD: list[tuple[dict[str, Any], Read, Any]] = [
    ({"top_p": 0.0, "temperature": 1.0}, sampling["greedy"], True),
    ({"top_k": 1, "temperature": 1.0}, sampling["greedy"], True),
    ({"temperature": 0.0, "top_p": 0.9}, sampling["greedy"], True),
    ({"top_k": 0, "top_p": 1.0}, sampling["greedy"], False),
    ({"stop_words": []}, words, set()),
    ({"stop_words": ["", "ab"]}, words, {"ab"}),
    ({"bad_words": [""]}, sampling["bad_words"], ()),
    ({"logit_bias": ""}, sampling["logit_bias"], ()),
    ({"logit_bias": "null"}, sampling["logit_bias"], ()),
    ({"logit_bias": '{"7": 2, "5": -100.0, "6": null}'}, sampling["logit_bias"], ((5, -100.0), (7, 2.0))),
    ({"end_id": 7}, asked["end_ids"], {7}),
    ({"end_id": 50256}, asked["end_ids"], set()),
    ({"end_id": -1}, asked["end_ids"], set()),
    ({"end_id": 7, "ignore_eos": True}, asked["end_ids"], set()),
    ({"pad_id": 2}, asked["end_ids"], END_IDS),
    ({"stop_token_ids": [9, 8, 9], "ignore_eos": True}, asked["stop_ids"], {8, 9}),
    ({"max_tokens": 0, "return_prompt_log_probs": True}, asked["max_tokens"], 0),
    ({"input_lengths": 3, "accumulate_tokens": True}, asked["max_tokens"], 61),
    ({"repetition_penalty": 1.5}, sampling["repetition_penalty"], 1.5),
    ({"presence_penalty": -2.0}, sampling["presence_penalty"], -2.0),
    ({"frequency_penalty": 2.0}, sampling["frequency_penalty"], 2.0),
    ({"no_repeat_ngram_size": 3}, sampling["no_repeat_ngram_size"], 3),
    ({"num_return_sequences": 4}, asked["sequence_count"], 4),
    ({"num_return_sequences": 2, "temperature": 0.0}, asked["sequence_count"], 2),
    ({"beam_width": 1, "length_penalty": 1.0, "early_stopping": 0}, asked["beam"], None),
    ({"beam_width": 3, "max_tokens": 4}, asked["sequence_count"], 3),
    ({"beam_width": 3, "num_return_sequences": 2, "max_tokens": 4}, asked["sequence_count"], 2),
    (
        {"beam_width": 3, "max_tokens": 4, "length_penalty": 0.5, "early_stopping": 1, "temperature": 1.0, "top_k": 1},
        asked["beam"],
        BeamParams(3, 0.5, True),
    ),
    ({"resume_ids": [9], "resume_index": 2}, asked["first_index"], 2),
    ({"return_log_probs": True}, asked["log_probs"], True),
    ({"return_logprobs": True}, asked["log_probs"], True),
    ({"return_cumulative_logprob": True}, asked["log_probs"], True),
    ({"return_log_probs": True, "top_log_probs": 20}, asked["top_log_probs"], 20),
    ({"return_prompt_log_probs": True}, asked["log_probs"], False),
    ({"return_prompt_log_probs": True}, asked["prompt_log_probs"], True),
    ({"guided_decoding_guide_type": "", "guided_decoding_guide": ""}, asked["guide"], None),
    ({"guided_decoding_guide_type": "json", "guided_decoding_guide": "x"}, asked["guide"], Guide("json")),
    (
        {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "a+"},
        asked["guide"],
        Guide("regex", "a+"),
    ),
    ({"tenant": "team"}, asked["tenant"], "team"),
    ({"cache_salt": "s"}, asked["cache_salt"], "s"),
    ({"lora_name": "legal"}, asked["adapter"], "legal"),
    ({"lora_name": "", "lora_task_id": 0}, asked["adapter"], ""),
    ({"lora_task_id": 1}, asked["adapter"], "french"),
    ({"lora_id": 2, "lora_name": "legal"}, asked["adapter"], "legal"),
    ({"exclude_input_in_output": False}, lambda a: a.echo, True),
    ({}, lambda a: a.echo, False),
    ({"include_stop_str_in_output": True}, lambda a: a.keep_stop_word, True),
    ({"random_seed": 5, "seed": 5}, sampling["seed"], 5),
    ({"min_length": 2, "request_output_len": 9}, asked["min_tokens"], 2),
    ({"streaming": True}, lambda a: a.stream, True),
    ({"sampling_param_stop": ["a", "b"]}, words, {"a", "b"}),
    ({"sampling_param_best_of": 1}, asked["sequence_count"], 1),
    ({"lora_task_id": 0, "lora_weights": [], "decoder_text_input": ""}, asked["sequence_count"], 1),
]


@pytest.mark.parametrize(("values", "read", "expected"), GOOD, ids=[" ".join(row[0]) or "nothing" for row in GOOD])
def test_what_an_input_becomes(tokenizer: Tokenizer, values: dict[str, Any], read: Read, expected: Any) -> None:
    assert read(admit(tokenizer, values)) == expected


JSON: list[tuple[dict[str, Any], Read, Any]] = [
    ({"n": "2", "temperature": "0.5"}, asked["sequence_count"], 2),
    ({"temperature": 1, "top_k": -1}, sampling["top_k"], 0),
    ({"temperature": 0}, sampling["greedy"], True),
    ({"temperature": None, "stop": [], "logit_bias": {}, "seed": None}, sampling["greedy"], True),
    ({"max_tokens": 5.0, "min_tokens": "2"}, asked["max_tokens"], 5),
    ({"stop": "end"}, words, {"end"}),
    ({"stop": ["a", None, ""]}, words, {"a"}),
    ({"stop_token_ids": [4, "5"]}, asked["stop_ids"], {4, 5}),
    ({"logit_bias": {"5": 1}}, sampling["logit_bias"], ((5, 1.0),)),
    ({"logprobs": 3}, asked["top_log_probs"], 3),
    ({"logprobs": 0}, asked["log_probs"], True),
    ({"prompt_logprobs": 2}, asked["prompt_log_probs"], True),
    ({"ignore_eos": "true"}, asked["end_ids"], set()),
    ({"use_beam_search": False, "skip_special_tokens": True, "best_of": 1}, asked["beam"], None),
    ({"guided_decoding": {"json": {"type": "object"}}}, asked["guide"], Guide("json_schema", '{"type": "object"}')),
    ({"guided_decoding": {"json": {}}}, asked["guide"], Guide("json_schema", "{}")),
    ({"structured_outputs": {"json": {}, "regex": ""}}, asked["guide"], Guide("json_schema", "{}")),
    ({"structured_outputs": {"regex": "a", "json": None}}, asked["guide"], Guide("regex", "a")),
    ({"guided_decoding": {"choice": ["a.b", "c"]}}, asked["guide"], Guide("regex", r"a\.b|c")),
    ({"guided_decoding": {"json_object": True}}, asked["guide"], Guide("json")),
    ({"guided_decoding": {}}, asked["guide"], None),
    ({"beam_width": 2, "max_tokens": 4, "early_stopping": True}, asked["beam"], BeamParams(2, 1.0, True)),
]


@pytest.mark.parametrize(("said", "read", "expected"), JSON, ids=[" ".join(row[0]) for row in JSON])
def test_vllms_sampling_parameters(tokenizer: Tokenizer, said: dict[str, Any], read: Read, expected: Any) -> None:
    """As the JSON input, and, where Triton lets a value in, as request parameters."""
    assert read(admit(tokenizer, {"sampling_parameters": json.dumps(said)})) == expected
    plain = {name: value for name, value in said.items() if isinstance(value, (str, int, float))}
    if plain == said:
        assert read(admit(tokenizer, {}, plain)) == expected


def test_the_same_said_twice_is_fine(tokenizer: Tokenizer) -> None:
    admitted = admit(
        tokenizer, {"temperature": 0.7, "sampling_parameters": '{"temperature": 0.7}'}, {"temperature": "0.7"}
    )
    assert admitted.request.sampling.temperature == pytest.approx(0.7)


def test_the_echo_is_a_serving_knob(tokenizer: Tokenizer) -> None:
    assert admit(tokenizer, {}, exclude_input_in_output=False).echo
    assert not admit(tokenizer, {"exclude_input_in_output": True}, exclude_input_in_output=False).echo


def test_bad_words_are_the_tokens_with_and_without_a_space(tokenizer: Tokenizer) -> None:
    found = admit(tokenizer, {"bad_words": ["ferry", " ferry", "the"]}).request.sampling.bad_words
    expected = [tuple(tokenizer.encode(form, special_tokens=False)) for form in ("ferry", " ferry", "the", " the")]
    assert found == tuple(dict.fromkeys(expected))


NEUTRAL = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "no_repeat_ngram_size": 0,
    "logit_bias": "{}",
    "bad_words": [""],
    "beam_width": 1,
    "num_return_sequences": 1,
    "return_log_probs": False,
    "return_prompt_log_probs": False,
    "top_log_probs": 0,
    "cache_salt": "",
    "lora_name": "",
    "lora_task_id": 0,
    "priority": 0,
    "guided_decoding_guide_type": "",
}
WANTED = {
    "repetition_penalty": 1.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "no_repeat_ngram_size": 2,
    "logit_bias": '{"5": 1}',
    "bad_words": ["a"],
    "num_return_sequences": 2,
    "return_log_probs": True,
    "return_prompt_log_probs": True,
    "return_logprobs": True,
    "return_cumulative_logprob": True,
    "cache_salt": "s",
    "lora_name": "french",
    "lora_task_id": 1,
    "guided_decoding_guide_type": "json",
}


def test_neutral_values_ask_an_engine_for_nothing(tokenizer: Tokenizer) -> None:
    unable = Admission(tokenizer, LIMITS, Capabilities(), ServingConfig(), ())
    assert unable.admit({**ids, **NEUTRAL}, "x").request.sequence_count == 1


@pytest.mark.parametrize("name", WANTED)
def test_what_an_engine_lacks_is_refused_by_name(tokenizer: Tokenizer, name: str) -> None:
    unable = Admission(tokenizer, LIMITS, Capabilities(), ServingConfig(), ())
    with pytest.raises(ServeError) as caught:
        unable.admit({**ids, name: WANTED[name]}, "x")
    assert (caught.value.code, caught.value.reason) == ("UNSUPPORTED", "not_supported")
    assert name in caught.value.text
