"""Admission: one row for each bad input, and what the good ones become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as RawTokenizer

from python_llm.admission import Admission
from python_llm.chat_template import ChatTemplate
from python_llm.engine import Capabilities, EngineLimits, SamplingParams
from python_llm.errors import CallerMistake, InvalidRequest, ServeError
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer

CONTEXT = 64
ABLE = Capabilities(frozenset({"temperature", "top_k", "top_p", "min_p", "seed"}), priorities=True, resume=True)
LIMITS = EngineLimits(max_sequence_len=CONTEXT, vocab_size=512, max_running=4, cache_tokens=1000)
NAN, INF = float("nan"), float("inf")


def admission_of(
    tokenizer: Tokenizer, capabilities: Capabilities = ABLE, limits: EngineLimits = LIMITS, **serving: Any
) -> Admission:
    return Admission(tokenizer, limits, capabilities, ServingConfig(**serving), end_ids=(2, 0, 1 << 20))


@pytest.fixture(scope="session")
def admission(tokenizer: Tokenizer) -> Admission:
    return admission_of(tokenizer)


ids = {"input_ids": [5, 6, 7]}
long_chat = json.dumps([{"role": "user", "content": "word " * 200}])

BAD: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("no prompt", {}, "one_prompt", ["prompt", "none", "text_input, input_ids, messages"]),
    ("no prompt but more", {"max_tokens": 3}, "one_prompt", ["none", "exactly one"]),
    ("two prompts", {**ids, "text_input": "a"}, "one_prompt", ["text_input and input_ids", "exactly one"]),
    ("three prompts", {**ids, "text_input": "a", "messages": long_chat}, "one_prompt", ["input_ids and messages"]),
    ("empty text", {"text_input": ""}, "empty_prompt", ["text_input", "empty", "at least one"]),
    ("empty ids", {"input_ids": []}, "empty_prompt", ["input_ids", "no tokens", "at least one"]),
    ("id too large", {"input_ids": [5, 512]}, "id_out_of_vocabulary", ["input_ids[1]", "512", "0 to 511", "tokenizer"]),
    ("id negative", {"input_ids": [-1]}, "id_out_of_vocabulary", ["input_ids[0]", "-1", "0 to 511"]),
    ("resumed id", {**ids, "resume_ids": [9, 600]}, "id_out_of_vocabulary", ["resume_ids[1]", "600"]),
    ("max_tokens 0", {**ids, "max_tokens": 0}, "max_tokens_too_small", ["max_tokens 0", "at least 1"]),
    ("max_tokens negative", {**ids, "max_tokens": -3}, "max_tokens_too_small", ["max_tokens -3", "at least 1"]),
    (
        "max_tokens large",
        {**ids, "max_tokens": 62},
        "max_tokens_too_large",
        ["max_tokens 62", "3", "61", "fewer"],
    ),
    ("ids too long", {"input_ids": [5] * 64}, "prompt_too_long", ["64 tokens", "64", "shorten"]),
    ("ids far too long", {"input_ids": [5] * 9999}, "prompt_too_long", ["9999 tokens", "64", "shorten"]),
    ("text too long", {"text_input": "a b " * 100}, "prompt_too_long", ["tokens", "64", "shorten"]),
    ("chat too long", {"messages": long_chat}, "prompt_too_long", ["tokens", "64", "shorten"]),
    ("prompt and resumed", {"input_ids": [5] * 60, "resume_ids": [6] * 4}, "prompt_too_long", ["64 tokens", "shorten"]),
    ("resumed all", {**ids, "max_tokens": 2, "resume_ids": [6, 7]}, "nothing_to_resume", ["2 tokens", "max_tokens 2"]),
    ("resumed more", {**ids, "max_tokens": 1, "resume_ids": [6] * 5}, "nothing_to_resume", ["5 tokens", "fewer"]),
    (
        "min above max",
        {**ids, "min_tokens": 9, "max_tokens": 8},
        "min_tokens_out_of_range",
        ["min_tokens 9", "max_tokens, which is 8"],
    ),
    ("min negative", {**ids, "min_tokens": -1}, "min_tokens_out_of_range", ["min_tokens -1", "from 0"]),
    ("temperature NaN", {**ids, "temperature": NAN}, "temperature_out_of_range", ["temperature nan", "from 0 to 100"]),
    ("temperature inf", {**ids, "temperature": INF}, "temperature_out_of_range", ["temperature inf", "from 0 to 100"]),
    ("temperature below", {**ids, "temperature": -0.1}, "temperature_out_of_range", ["temperature -0.1", "from 0"]),
    ("temperature above", {**ids, "temperature": 101.0}, "temperature_out_of_range", ["temperature 101", "100"]),
    ("top_p NaN", {**ids, "top_p": NAN}, "top_p_out_of_range", ["top_p nan", "from 0 to 1"]),
    ("top_p above", {**ids, "top_p": 1.5}, "top_p_out_of_range", ["top_p 1.5", "from 0 to 1"]),
    ("top_p below", {**ids, "top_p": -1.0}, "top_p_out_of_range", ["top_p -1", "from 0 to 1"]),
    ("min_p inf", {**ids, "min_p": INF}, "min_p_out_of_range", ["min_p inf", "from 0 to 1"]),
    ("min_p below", {**ids, "min_p": -0.5}, "min_p_out_of_range", ["min_p -0.5", "from 0 to 1"]),
    ("top_k negative", {**ids, "top_k": -1}, "top_k_out_of_range", ["top_k -1", "from 0"]),
    ("messages no JSON", {"messages": "hello"}, "messages_not_json", ["messages", "JSON list"]),
    ("messages cut", {"messages": '[{"role":'}, "messages_not_json", ["messages", "JSON list"]),
    ("messages too deep", {"messages": "[" * 100_000}, "messages_not_json", ["messages", "JSON list"]),
    ("messages a number", {"messages": "3"}, "messages_not_valid", ["messages", "non-empty list", "'role'"]),
    ("messages empty", {"messages": "[]"}, "messages_not_valid", ["messages", "non-empty list"]),
    ("messages of text", {"messages": '["hi"]'}, "messages_not_valid", ["'role'", "'content'"]),
    ("messages no role", {"messages": '[{"content": "hi"}]'}, "messages_not_valid", ["'role'"]),
    ("messages no list", {"messages": '{"messages": {"role": "user"}}'}, "messages_not_valid", ["non-empty list"]),
    ("messages missing", {"messages": '{"tools": []}'}, "messages_not_valid", ["non-empty list"]),
    ("messages odd key", {"messages": '{"mesages": []}'}, "messages_not_valid", ["'mesages'", "messages, tools"]),
    (
        "tools no list",
        {"messages": '{"messages": [{"role": "a", "content": ""}], "tools": 5}'},
        "messages_not_valid",
        ["tools"],
    ),
    ("messages null", {"messages": " null "}, "one_prompt", ["prompt", "none"]),
    ("messages blank", {"messages": ""}, "one_prompt", ["prompt", "none"]),
    ("messages an empty object", {"messages": "{}"}, "messages_not_valid", ["non-empty list"]),
    ("messages nested", {"messages": "[" * 100_000}, "messages_not_json", ["messages: nested too deeply"]),
    ("messages long number", {"messages": "9" * 5000}, "messages_not_json", ["messages: a number is too long"]),
    ("content missing", {"messages": '[{"role": "user"}]'}, "messages_not_valid", ["messages[0].content: missing"]),
    (
        "content a number",
        {"messages": '[{"role": "user", "content": "a"}, {"role": "user", "content": 5}]'},
        "messages_not_valid",
        ["messages[1].content: 5; it must be text", "send text"],
    ),
    (
        "content an object",
        {"messages": '[{"role": "user", "content": {}}]'},
        "messages_not_valid",
        ["messages[0].content: an object"],
    ),
    (
        "content null",
        {"messages": '[{"role": "assistant", "content": null, "tool_calls": []}]'},
        "messages_not_valid",
        ["messages[0].content: null"],
    ),
    (
        "role no text",
        {"messages": '[{"role": 3, "content": "x"}]'},
        "messages_not_valid",
        ["messages[0].role: 3; it must be text"],
    ),
    (
        "half a surrogate",
        {"messages": '[{"role": "user", "content": "\\ud800"}]'},
        "invalid_utf8",
        ["messages", "surrogate"],
    ),
    ("stop words", {**ids, "stop_words": ["x"] * 1025}, "too_many_stop_words", ["1025", "1024"]),
    ("stop word", {**ids, "stop_words": ["x" * 4097]}, "stop_word_too_long", ["4097", "4096"]),
]


@pytest.mark.parametrize(("values", "reason", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused_by_name(
    admission: Admission, values: dict[str, Any], reason: str, words: list[str]
) -> None:
    with pytest.raises(ServeError) as caught:
        admission.admit(values, "x")
    assert (caught.value.code, caught.value.reason) == ("INVALID_ARG", reason)
    for word in words:
        assert word in caught.value.text
    assert caught.value.text.endswith(".")


def test_a_checkpoint_without_a_template_refuses_messages(byte_level: RawTokenizer) -> None:
    plain = admission_of(Tokenizer(byte_level, None))
    with pytest.raises(ServeError) as caught:
        plain.admit({"messages": '[{"role": "user", "content": "hi"}]'}, "x")
    assert (caught.value.code, caught.value.reason) == ("UNSUPPORTED", "no_chat_template")
    assert "send text_input" in caught.value.text


def test_a_template_that_renders_nothing_is_an_empty_prompt(byte_level: RawTokenizer) -> None:
    plain = admission_of(Tokenizer(byte_level, ChatTemplate("", {})))
    with pytest.raises(ServeError, match="empty_prompt"):
        plain.admit({"messages": '[{"role": "user", "content": "hi"}]'}, "x")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.0),
        ("top_k", 1),
        ("top_p", 0.5),
        ("min_p", 0.5),
        ("seed", 0),
        ("resume_ids", [3]),
        ("priority", 1),
    ],
)
def test_what_the_engine_lacks_is_refused_by_name(tokenizer: Tokenizer, name: str, value: Any) -> None:
    with pytest.raises(ServeError) as caught:
        admission_of(tokenizer, Capabilities()).admit({**ids, name: value}, "x")
    assert (caught.value.code, caught.value.reason) == ("UNSUPPORTED", "not_supported")
    assert name in caught.value.text
    assert "leave it out" in caught.value.text


class NeverTokenises(Tokenizer):
    def encode(self, text: str, *, special_tokens: bool) -> list[int]:
        raise AssertionError("a text that cannot fit was tokenised")


def test_a_huge_text_is_refused_without_tokenising(byte_level: RawTokenizer) -> None:
    with pytest.raises(ServeError) as caught:
        admission_of(NeverTokenises(byte_level, None)).admit({"text_input": "a" * 10_000_000}, "x")
    assert caught.value.reason == "prompt_too_long"
    assert "at least" in caught.value.text


def test_the_cache_bounds_a_request_as_the_context_does(tokenizer: Tokenizer) -> None:
    small = EngineLimits(max_sequence_len=64, vocab_size=512, max_running=4, cache_tokens=10)
    bounded = admission_of(tokenizer, limits=small)
    assert bounded.admit({**ids, "max_tokens": 7}, "x").request.max_tokens == 7
    with pytest.raises(ServeError, match=r"max_tokens 8: .* at most 7 fit into the context of 10 tokens"):
        bounded.admit({**ids, "max_tokens": 8}, "x")


@pytest.mark.parametrize("unset", ["null", " null\n", "", "[]", "{}"])
def test_messages_that_are_null_or_empty_are_unset_beside_a_prompt(admission: Admission, unset: str) -> None:
    assert admission.admit({**ids, "messages": unset}, "x").request.prompt_ids == (5, 6, 7)
    text = admission.admit({"text_input": "a", "messages": unset}, "x").request.prompt_ids
    assert text == admission.admit({"text_input": "a"}, "x").request.prompt_ids


def test_nothing_given_is_greedy_and_ends_at_end_tokens(admission: Admission) -> None:
    admitted = admission.admit(ids, "x")
    request = admitted.request
    assert request.sampling.greedy
    assert request.end_ids == {0, 2}
    assert (request.request_id, request.prompt_ids, request.min_tokens, request.priority) == ("x", (5, 6, 7), 0, 0)
    assert not admitted.stream
    assert admitted.timeout == 0
    assert admission.admit({**ids, "ignore_eos": True}, "x").request.end_ids == frozenset()
    assert admission.admit({**ids, "ignore_eos": False}, "x").request.end_ids == {0, 2}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"temperature": 0.5}, SamplingParams(temperature=0.5)),
        ({"temperature": 0.0, "top_p": 0.9}, SamplingParams(temperature=0.0, top_p=0.9)),
        ({"top_p": 0.9}, SamplingParams(temperature=1.0, top_p=0.9)),
        ({"top_k": 4}, SamplingParams(temperature=1.0, top_k=4)),
        ({"min_p": 0.25}, SamplingParams(temperature=1.0, min_p=0.25)),
        ({"top_k": 2**31 - 1}, SamplingParams(temperature=1.0, top_k=2**31 - 1)),
    ],
)
def test_sampling_is_what_was_asked(admission: Admission, values: dict[str, Any], expected: SamplingParams) -> None:
    seed = 2**64 - 1
    sampling = admission.admit({**ids, **values, "seed": seed}, "x").request.sampling
    assert sampling == SamplingParams(expected.temperature, expected.top_k, expected.top_p, expected.min_p, seed)


def test_fresh_seeds_differ(admission: Admission) -> None:
    assert len({admission.admit(ids, "x").request.sampling.seed for _ in range(50)}) == 50


def test_the_default_of_max_tokens_is_cut_to_the_context(tokenizer: Tokenizer) -> None:
    assert admission_of(tokenizer).admit(ids, "x").request.max_tokens == CONTEXT - 3
    brief = admission_of(tokenizer, default_max_tokens=5)
    assert brief.admit(ids, "x").request.max_tokens == 5
    assert brief.admit({**ids, "resume_ids": [9] * 8}, "x").request.max_tokens == 9  # there is always one to make
    assert brief.admit({"input_ids": [5] * 63}, "x").request.max_tokens == 1


def test_timeouts_are_microseconds_and_zero_is_none(tokenizer: Tokenizer) -> None:
    limited = admission_of(tokenizer, default_timeout_seconds=30.0)
    assert limited.admit(ids, "x").timeout == 30.0
    assert limited.admit({**ids, "timeout": 1_500_000}, "x").timeout == 1.5
    assert limited.admit({**ids, "timeout": 0}, "x").timeout == 0.0


def test_text_and_messages_become_the_tokenizers_ids(admission: Admission, tokenizer: Tokenizer) -> None:
    text = "The ferry left"
    assert admission.admit({"text_input": text}, "x").request.prompt_ids == tuple(
        tokenizer.encode(text, special_tokens=True)
    )
    chat = '[{"role": "user", "content": "hi"}]'
    prompt = admission.admit({"messages": chat}, "x").request.prompt_ids
    assert prompt[0] == 1  # <|im_start|>, once
    assert prompt == admission.admit({"messages": f'{{"messages": {chat}, "tools": null}}'}, "x").request.prompt_ids


def test_empty_stop_words_do_not_stop(admission: Admission) -> None:
    words = admission.admit({**ids, "stop_words": ["", "ab"]}, "x").stop_words
    assert words.matched[0] is None
    assert words.matched[words.step(words.step(0, "a"), "b")] == "ab"


@given(
    prompt=st.lists(st.integers(0, 511), min_size=1, max_size=80),
    resumed=st.lists(st.integers(0, 511), max_size=80),
    max_tokens=st.none() | st.integers(-5, 100),
)
def test_whatever_is_admitted_fits(
    admission: Admission, prompt: list[int], resumed: list[int], max_tokens: int | None
) -> None:
    values: dict[str, Any] = {"input_ids": prompt, "resume_ids": resumed}
    if max_tokens is not None:
        values["max_tokens"] = max_tokens
    try:
        request = admission.admit(values, "x").request
    except InvalidRequest:
        return
    assert len(request.resume_ids) < request.max_tokens
    assert len(request.prompt_ids) + request.max_tokens <= CONTEXT


def test_the_tokenizer_says_what_is_wrong_with_its_folder(tmp_path: Path) -> None:
    for content in (None, "{"):
        if content is not None:
            (tmp_path / "tokenizer.json").write_text(content, "utf-8")
        with pytest.raises(CallerMistake, match=r"tokenizer.json'.*build the artifact again"):
            Tokenizer.load(tmp_path)
