"""What bad input gets: at least one row an input, each with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hand_engine import ABLE
from python_llm.admission import Admission
from python_llm.contract import GENERATOR
from python_llm.engine import EngineLimits
from python_llm.errors import ServeError
from python_llm.request import read_request
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from request_inputs import tensors_of

LIMITS = EngineLimits(max_sequence_len=64, vocab_size=512, max_running=4, cache_tokens=100)
NAN, INF = float("nan"), float("inf")
CHAT = '[{"role": "user", "content": "hi"}]'
SCHEMA = {"guided_decoding_guide_type": "json_schema"}
BEAMS = {"beam_width": 2}

ids = {"input_ids": [5, 6, 7]}


def vllm(**values: Any) -> dict[str, Any]:
    return {**ids, "sampling_parameters": json.dumps(values)}


# what, inputs, reason, words of the text
BAD: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("none", {}, "one_prompt", ["prompt", "none"]),
    ("both prompts", {**ids, "text_input": "a"}, "one_prompt", ["text_input and input_ids"]),
    ("text empty", {"text_input": ""}, "empty_prompt", ["text_input"]),
    ("text no UTF-8", {"text_input": b"\xff"}, "invalid_utf8", ["text_input", "byte 0"]),
    ("ids outside the vocabulary", {"input_ids": [512]}, "id_out_of_vocabulary", ["input_ids[0]", "512", "0 to 511"]),
    ("lengths untrue", {**ids, "input_lengths": 4}, "wrong_length", ["input_lengths 4", "holds 3"]),
    ("messages not JSON", {"messages": "hello"}, "messages_not_json", ["messages"]),
    ("adapter unknown", {**ids, "lora_name": "german"}, "unknown_adapter", ["lora_name 'german'", "1 french, 2 legal"]),
    ("adapter of vLLM's", vllm(lora_name="german"), "unknown_adapter", ["'german'", "send one of them"]),
    ("adapter number", {**ids, "lora_task_id": 3}, "unknown_adapter", ["lora_task_id 3", "1 french, 2 legal"]),
    ("adapter id", {**ids, "lora_id": 2**64 - 1}, "unknown_adapter", ["1 french, 2 legal"]),
    ("two adapters", {**ids, "lora_name": "french", "lora_task_id": 2}, "two_adapters", ["lora_task_id 2 is 'legal'"]),
    ("adapter long", {**ids, "lora_name": "x" * 257}, "lora_name_too_long", ["257", "256"]),
    ("resumed id", {**ids, "resume_ids": [600]}, "id_out_of_vocabulary", ["resume_ids[0]"]),
    ("resumed index", {**ids, "resume_index": -1}, "resume_index_out_of_range", ["resume_index -1", "from 0"]),
    ("resumed several", {**ids, "resume_ids": [6], "num_return_sequences": 2}, "resume_one_sequence", ["one sequence"]),
    ("resumed beams", {**ids, "resume_ids": [6], **BEAMS, "max_tokens": 9}, "resume_one_sequence", ["beam_width 1"]),
    ("max_tokens 0", {**ids, "max_tokens": 0}, "max_tokens_too_small", ["at least 1", "return_prompt_log_probs"]),
    (
        "max_tokens negative",
        {**ids, "max_tokens": -1, "return_prompt_log_probs": True},
        "max_tokens_too_small",
        ["max_tokens -1", "at least 0"],
    ),
    ("max_tokens large", {**ids, "max_tokens": 99}, "max_tokens_too_large", ["max_tokens 99", "61"]),
    ("min_tokens negative", {**ids, "min_tokens": -1}, "min_tokens_out_of_range", ["min_tokens -1"]),
    ("temperature NaN", {**ids, "temperature": NAN}, "temperature_out_of_range", ["nan", "from 0 to 100"]),
    ("temperature infinite", {**ids, "temperature": INF}, "temperature_out_of_range", ["inf"]),
    ("top_k negative", {**ids, "top_k": -2}, "top_k_out_of_range", ["top_k -2"]),
    ("top_p large", {**ids, "top_p": 1.5}, "top_p_out_of_range", ["from 0 to 1"]),
    ("min_p negative", {**ids, "min_p": -0.1}, "min_p_out_of_range", ["min_p -0.1"]),
    ("repetition 0", {**ids, "repetition_penalty": 0.0}, "repetition_penalty_out_of_range", ["above 0", "100"]),
    ("repetition NaN", {**ids, "repetition_penalty": NAN}, "repetition_penalty_out_of_range", ["nan"]),
    ("repetition large", {**ids, "repetition_penalty": 101.0}, "repetition_penalty_out_of_range", ["at most 100"]),
    ("presence", {**ids, "presence_penalty": -2.5}, "presence_penalty_out_of_range", ["-2.5", "from -2 to 2"]),
    ("frequency", {**ids, "frequency_penalty": INF}, "frequency_penalty_out_of_range", ["inf", "from -2 to 2"]),
    ("n-grams", {**ids, "no_repeat_ngram_size": -1}, "no_repeat_ngram_size_out_of_range", ["-1"]),
    ("length penalty", {**ids, **BEAMS, "length_penalty": NAN}, "length_penalty_out_of_range", ["nan"]),
    ("length penalty alone", {**ids, "length_penalty": 2.0}, "needs_beams", ["length_penalty", "beam_width"]),
    ("early stopping", {**ids, **BEAMS, "early_stopping": 2}, "early_stopping_out_of_range", ["from 0 to 1"]),
    ("early stopping alone", {**ids, "early_stopping": 1}, "needs_beams", ["early_stopping", "beam_width"]),
    ("beams 0", {**ids, "beam_width": 0}, "beam_width_out_of_range", ["from 1 to 8"]),
    ("beams many", {**ids, "beam_width": 9}, "beam_width_out_of_range", ["from 1 to 8"]),
    ("beams stream", {**ids, **BEAMS, "stream": True}, "beams_do_not_stream", ["stream", "beam_width"]),
    ("beams sample", {**ids, **BEAMS, "temperature": 0.5}, "beams_do_not_sample", ["temperature", "beam_width"]),
    ("beams sample by p", {**ids, **BEAMS, "top_p": 0.5}, "beams_do_not_sample", ["top_p"]),
    ("beams guided", {**ids, **BEAMS, "guided_decoding_guide_type": "json"}, "beams_take_no_guide", ["beam_width 1"]),
    ("beams do not fit", {**ids, "beam_width": 8, "max_tokens": 13}, "beams_too_large", ["107", "100", "fewer"]),
    ("sequences 0", {**ids, "num_return_sequences": 0}, "num_return_sequences_out_of_range", ["from 1 to 4"]),
    ("sequences many", {**ids, "num_return_sequences": 5}, "num_return_sequences_out_of_range", ["from 1 to 4"]),
    (
        "more than beams",
        {**ids, **BEAMS, "num_return_sequences": 3},
        "num_return_sequences_out_of_range",
        ["beam_width, which is 2"],
    ),
    ("10,000 stop words", {**ids, "stop_words": ["x"] * 10_000}, "too_many_stop_words", ["10000", "1024"]),
    ("stop word long", {**ids, "stop_words": ["x" * 4097]}, "stop_word_too_long", ["4097", "4096"]),
    ("stop word no UTF-8", {**ids, "stop_words": [b"\xc3"]}, "invalid_utf8", ["stop_words"]),
    ("stop token", {**ids, "stop_token_ids": [3, 512]}, "id_out_of_vocabulary", ["stop_token_ids", "512"]),
    ("stop token negative", {**ids, "stop_token_ids": [-1]}, "id_out_of_vocabulary", ["stop_token_ids", "-1"]),
    ("bad words many", {**ids, "bad_words": ["x"] * 1025}, "too_many_bad_words", ["1025", "1024"]),
    ("bad word long", {**ids, "bad_words": ["x" * 257]}, "bad_word_too_long", ["257", "256"]),
    ("end_id negative", {**ids, "end_id": -2}, "end_id_out_of_range", ["end_id -2"]),
    ("bias no JSON", {**ids, "logit_bias": "{"}, "logit_bias_not_json", ["JSON object"]),
    ("bias too deep", {**ids, "logit_bias": "[" * 100_000}, "logit_bias_not_json", ["JSON object"]),
    ("bias a list", {**ids, "logit_bias": "[1]"}, "logit_bias_not_json", ["list", "JSON object"]),
    ("bias no id", {**ids, "logit_bias": '{"the": 1}'}, "id_out_of_vocabulary", ["'the'", "0 to 511"]),
    ("bias outside", {**ids, "logit_bias": '{"512": 1}'}, "id_out_of_vocabulary", ["'512'"]),
    ("bias NaN", {**ids, "logit_bias": '{"5": NaN}'}, "logit_bias_out_of_range", ["token 5", "nan"]),
    ("bias infinite", {**ids, "logit_bias": '{"5": -Infinity}'}, "logit_bias_out_of_range", ["-inf", "-100 to 100"]),
    ("bias large", {**ids, "logit_bias": '{"5": 101}'}, "logit_bias_out_of_range", ["101"]),
    ("bias text", {**ids, "logit_bias": '{"5": "a"}'}, "logit_bias_out_of_range", ["'a'"]),
    (
        "biases many",
        {**ids, "logit_bias": json.dumps({str(i): 1 for i in range(1025)})},
        "too_many_logit_bias",
        ["1025", "1024"],
    ),
    ("alternatives", {**ids, "return_log_probs": True, "top_log_probs": 21}, "top_log_probs_out_of_range", ["0 to 20"]),
    ("alternatives alone", {**ids, "top_log_probs": 2}, "needs_log_probs", ["return_log_probs"]),
    (
        "1 MB guide",
        {**ids, **SCHEMA, "guided_decoding_guide": "x" * 2**20},
        "guided_decoding_guide_too_long",
        ["1048576"],
    ),
    ("guide type", {**ids, "guided_decoding_guide_type": "xml"}, "unknown_guide_type", ["'xml'", "json_schema"]),
    ("guide alone", {**ids, "guided_decoding_guide": "a"}, "guide_without_type", ["guided_decoding_guide_type"]),
    ("guide missing", {**ids, **SCHEMA}, "guide_missing", ["json_schema needs one"]),
    ("schema no JSON", {**ids, **SCHEMA, "guided_decoding_guide": "{"}, "guide_not_json", ["must be JSON"]),
    ("tenant long", {**ids, "tenant": "x" * 257}, "tenant_too_long", ["257", "256"]),
    ("salt long", {**ids, "cache_salt": "x" * 257}, "cache_salt_too_long", ["257", "256"]),
    ("sampling no JSON", {**ids, "sampling_parameters": "a"}, "sampling_parameters_not_json", ["JSON object"]),
    ("sampling a list", {**ids, "sampling_parameters": "[1]"}, "sampling_parameters_not_json", ["list"]),
    ("sampling too deep", {**ids, "sampling_parameters": "[" * 100_000}, "sampling_parameters_not_json", ["JSON"]),
    ("sampling key", vllm(temprature=1), "unknown_sampling_parameter", ["'temprature'", "'temperature'"]),
    ("sampling type", vllm(temperature="hot"), "wrong_type", ["temperature", "'hot'", "a number"]),
    ("sampling flag", vllm(ignore_eos="perhaps"), "wrong_type", ["ignore_eos", "true or false"]),
    ("sampling half", vllm(max_tokens=2.5), "wrong_type", ["max_tokens", "2.5", "whole number"]),
    ("sampling infinite", vllm(max_tokens=INF), "wrong_type", ["max_tokens", "whole number"]),
    ("sampling NaN", vllm(top_p=NAN), "top_p_out_of_range", ["nan"]),
    ("sampling true", vllm(top_k=True), "wrong_type", ["top_k", "a number"]),
    ("sampling huge", vllm(seed=2**64), "seed_out_of_range", ["18446744073709551616"]),
    ("sampling negative seed", vllm(seed=-5), "seed_out_of_range", ["seed -5"]),
    ("sampling text", vllm(tenant=3), "wrong_type", ["tenant", "text"]),
    ("half a surrogate pair", vllm(stop=["\ud800"]), "invalid_utf8", ["'stop'", "half a surrogate pair"]),
    (
        "sampling guides",
        vllm(guided_decoding={"json": "{}", "regex": "a"}),
        "wrong_type",
        ["one of json", "json and regex together"],
    ),
    (
        "sampling guides 2",
        vllm(structured_outputs={"json": {}, "regex": "a"}),
        "wrong_type",
        ["json and regex together"],
    ),
    ("sampling guide key", vllm(guided_decoding={"jsn": {"type": "object"}}), "wrong_type", ["one of json"]),
    ("sampling nested", {**ids, "sampling_parameters": "[" * 10**5}, "sampling_parameters_not_json", ["too deeply"]),
    ("sampling long", {**ids, "sampling_parameters": "9" * 5000}, "sampling_parameters_not_json", ["is too long"]),
    ("schema nested", {**ids, **SCHEMA, "guided_decoding_guide": "[" * 10**5}, "guide_not_json", ["nested too deeply"]),
    ("schema long", {**ids, **SCHEMA, "guided_decoding_guide": "9" * 5000}, "guide_not_json", ["a number is too long"]),
    ("sampling guide text", vllm(guided_decoding="json"), "wrong_type", ["guided_decoding"]),
    ("contradiction", {**vllm(temperature=0.5), "temperature": 0.75}, "given_twice", ["temperature", "0.5", "0.75"]),
    ("contradicting alias", {**ids, "seed": 1, "random_seed": 2}, "given_twice", ["random_seed", "seed"]),
    ("contradicting aliases", {**ids, "runtime_top_k": 1, "sampling_param_top_k": 2}, "given_twice", ["top_k"]),
    ("bias of a long id", {**ids, "logit_bias": json.dumps({"9" * 5000: 1})}, "id_out_of_vocabulary", ["'99999"]),
    ("bias huge", {**ids, "logit_bias": json.dumps({"5": 10**400})}, "logit_bias_out_of_range", ["token 5"]),
    ("sampling very huge", vllm(max_tokens=10**40), "max_tokens_too_large", ["max_tokens 1000"]),
    ("sampling guide cut", vllm(guided_decoding='{"json":'), "wrong_type", ["guided_decoding", "an object"]),
    ("timeout negative", vllm(timeout=-5), "timeout_out_of_range", ["timeout -5"]),
    ("priority", vllm(priority=2**31), "priority_out_of_range", ["2147483648"]),
]


@pytest.fixture(scope="module")
def admission(tokenizer: Tokenizer) -> Admission:
    return Admission(tokenizer, LIMITS, ABLE, ServingConfig(), ())


def refusal(admission: Admission, values: dict[str, Any], parameters: str = "") -> ServeError:
    with pytest.raises(ServeError) as caught:
        admission.admit(read_request(tensors_of(values), parameters, GENERATOR), "x")
    return caught.value


@pytest.mark.parametrize(("values", "reason", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_gets_its_reason(admission: Admission, values: dict[str, Any], reason: str, words: list[str]) -> None:
    error = refusal(admission, values)
    assert (error.code, error.reason) == ("INVALID_ARG", reason)
    for word in words:
        assert word in error.text
    assert error.text.endswith((".", "?"))
    assert len(error.text) < 400


def test_every_input_that_can_be_bad_has_a_row() -> None:
    """Flags can hold nothing wrong, and what is refused for being there has its own test."""
    tested = {name for _, values, _, _ in BAD for name in values}
    harmless = {row.name for row in GENERATOR.inputs if row.dtype == "BOOL"} | {"pad_id", "timeout", "control"}
    tested |= {"sampling_parameters", "priority", "seed", "guided_decoding_guide_type"}
    assert {r.name for r in GENERATOR.inputs if not (r.alias_of or r.refused)} - harmless <= tested


UNABLE = [
    ("best_of", vllm(best_of=3), "send n"),
    ("use_beam_search", vllm(use_beam_search=True), "beam_width"),
    ("detokenize", vllm(detokenize=False), "leave it out"),
    ("allowed_token_ids", vllm(allowed_token_ids=[1]), "logit_bias"),
    ("guide kind", {**ids, "guided_decoding_guide_type": "structural_tag"}, "json, json_schema, regex"),
]


@pytest.mark.parametrize(("values", "words"), [row[1:] for row in UNABLE], ids=[row[0] for row in UNABLE])
def test_what_cannot_be_done_is_refused_by_name(admission: Admission, values: dict[str, Any], words: str) -> None:
    error = refusal(admission, values)
    assert (error.code, error.reason) == ("UNSUPPORTED", "not_supported")
    assert words in error.text


@pytest.mark.parametrize("name", ["return_context_logits", "return_generation_logits"])
def test_logits_are_refused_with_what_there_is_instead(admission: Admission, name: str) -> None:
    error = refusal(admission, {**ids, name: True})
    assert (error.code, error.reason) == ("UNSUPPORTED", "not_supported")
    assert "gives no logits" in error.text
    assert "return_log_probs or return_prompt_log_probs" in error.text


def test_a_misspelt_parameter_of_http_names_the_nearest(admission: Admission) -> None:
    error = refusal(admission, ids, '{"max_tokns": 3}')
    assert (error.reason, "'max_tokens'" in error.text) == ("unknown_parameter", True)
