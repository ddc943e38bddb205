"""What the fields of a request ask of the generator, and what null and texts in parts are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripted_upstream import words
from tests.unit.openai_gateway.api import CHAT, COMPLETION, api, run

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}}
LOG_PROBS = {"return_log_probs": [True], "return_logprobs": [True]}

BOTH: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"n": 3}, {"num_return_sequences": [3]}),
    ({"stop": "END"}, {"stop_words": ["END"]}),
    ({"stop": ["a", "b"]}, {"stop_words": ["a", "b"]}),
    ({"stop": []}, {}),
    ({"seed": 11}, {"seed": [11]}),
    ({"seed": -1}, {"seed": [2**64 - 1]}),
    ({"seed": 2**70 + 1}, {"seed": [1]}),
    ({"max_tokens": 5}, {"max_tokens": [5]}),
    ({"temperature": 0}, {"temperature": [0]}),
    ({"temperature": 0.5, "top_p": 0.9}, {"temperature": [0.5], "top_p": [0.9]}),
    ({"presence_penalty": -1, "frequency_penalty": 0.5}, {"presence_penalty": [-1], "frequency_penalty": [0.5]}),
    ({"logit_bias": {"50": -100, "7": 1.5}}, {"logit_bias": {"50": -100, "7": 1.5}}),
    ({"response_format": {"type": "text"}}, {}),
    ({"response_format": {"type": "json_object"}}, {"guided_decoding_guide_type": ["json"]}),
    (
        {"response_format": FORMAT},
        {"guided_decoding_guide_type": ["json_schema"], "guided_decoding_guide": SCHEMA},
    ),
    ({"top_k": 3, "min_p": 0.1, "min_tokens": 2}, {"top_k": [3], "min_p": [0.1], "min_tokens": [2]}),
    (
        {"repetition_penalty": 1.1, "no_repeat_ngram_size": 3},
        {"repetition_penalty": [1.1], "no_repeat_ngram_size": [3]},
    ),
    ({"bad_words": ["no"], "stop_token_ids": [4]}, {"bad_words": ["no"], "stop_token_ids": [4]}),
    ({"ignore_eos": True, "cache_salt": "s"}, {"ignore_eos": [True], "cache_salt": ["s"]}),
    ({"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"}, {}),
    ({"safety_identifier": "x", "prompt_cache_key": "k"}, {}),
]
OF_CHATS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"max_completion_tokens": 6}, {"max_tokens": [6]}),
    ({"logprobs": True}, LOG_PROBS),
    ({"logprobs": True, "top_logprobs": 4}, {**LOG_PROBS, "top_log_probs": [4]}),
    ({"logprobs": True, "top_logprobs": 0}, LOG_PROBS),
    ({"logprobs": False}, {}),
    ({"tools": [], "parallel_tool_calls": True}, {}),
    ({"modalities": ["text"]}, {}),
]
OF_COMPLETIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"max_tokens": [16]}),
    ({"logprobs": 0}, {"max_tokens": [16], **LOG_PROBS}),
    ({"logprobs": 5}, {"max_tokens": [16], **LOG_PROBS, "top_log_probs": [5]}),
    ({"echo": True}, {"max_tokens": [16], "exclude_input_in_output": [False]}),
    (
        {"echo": True, "logprobs": 1, "max_tokens": 0},
        {
            "max_tokens": [0],
            "exclude_input_in_output": [False],
            "return_prompt_log_probs": [True],
            **LOG_PROBS,
            "top_log_probs": [1],
        },
    ),
    (
        {"echo": True, "max_tokens": 0},
        {"max_tokens": [0], "exclude_input_in_output": [False], "return_prompt_log_probs": [True]},
    ),
    ({"best_of": 2, "n": 2}, {"max_tokens": [16], "num_return_sequences": [2]}),
    ({"suffix": ""}, {"max_tokens": [16]}),
]
ALWAYS = {"stream": [True]}


def tensors_of(told: dict[str, Any]) -> dict[str, Any]:
    """What is asked beside the prompt; JSON texts as objects."""
    found = {name: value for name, value in told.items() if name not in ("messages", "text_input", *ALWAYS)}
    for name in ("logit_bias", "guided_decoding_guide"):
        if name in found:
            (text,) = found[name]
            found[name] = json.loads(text)
    return found


@pytest.mark.parametrize(("fields", "asked"), [*BOTH, *OF_CHATS])
def test_fields_of_a_chat(fields: dict[str, Any], asked: dict[str, Any]) -> None:
    async def work() -> None:
        async with api([chunk for i in range(fields.get("n", 1)) for chunk in words("x", index=i)]) as gateway:
            answer = await gateway.chat(**fields)
            assert answer.status_code == 200, answer.text
            assert tensors_of(gateway.asked.tensors) == {"temperature": [1.0], **asked}
            assert json.loads(gateway.asked.tensors["messages"][0]) == CHAT["messages"]

    run(work)


@pytest.mark.parametrize(("fields", "asked"), [*BOTH, *OF_COMPLETIONS])
def test_fields_of_a_completion(fields: dict[str, Any], asked: dict[str, Any]) -> None:
    async def work() -> None:
        async with api([chunk for i in range(fields.get("n", 1)) for chunk in words("x", index=i)]) as gateway:
            answer = await gateway.complete(**fields)
            assert answer.status_code == 200, answer.text
            assert tensors_of(gateway.asked.tensors) == {"temperature": [1.0], "max_tokens": [16], **asked}
            assert gateway.asked.tensors["text_input"] == ["hi"]

    run(work)


def test_every_optional_field_may_be_null() -> None:
    """Clients that write out their whole request say null for what they do not mean."""

    async def work() -> None:
        async with api() as gateway:
            page = (await gateway.client.get("/openapi.json")).json()["components"]["schemas"]
            for kind, ask, need in (
                ("ChatRequest", gateway.chat, CHAT),
                ("CompletionRequest", gateway.complete, COMPLETION),
            ):
                names = page[kind]["properties"].keys() - need.keys()
                assert len(names) > 30
                answer = await ask(**dict.fromkeys(names))
                assert answer.status_code == 200, answer.text
                assert set(gateway.asked.tensors) <= {"messages", "text_input", "max_tokens", "temperature", *ALWAYS}

    run(work)


def test_messages_go_to_the_generator_as_its_template_reads_them() -> None:
    said: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief", "name": None},
        {"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}]},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
                {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "torn {"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "content": "ok", "tool_calls": [], "audio": None},
    ]
    template = [
        {"role": "system", "content": "be brief"},
        said[1],
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"x": 1}}},
                said[2]["tool_calls"][1],
            ],
        },
        said[3],
        {"role": "assistant", "content": "ok"},
    ]

    async def work() -> None:
        async with api() as gateway:
            assert (await gateway.chat(messages=said)).status_code == 200
            assert json.loads(gateway.asked.tensors["messages"][0]) == template

    run(work)


def test_an_answer_at_once_is_whole() -> None:
    async def work() -> None:
        async with api() as gateway:
            chat, text = (await gateway.chat()).json(), (await gateway.complete()).json()
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            assert chat.pop("id").startswith("chatcmpl-")
            assert isinstance(chat.pop("created"), int)
            assert chat == {
                "object": "chat.completion",
                "model": "m",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "one two", "refusal": None},
                        "logprobs": None,
                        "finish_reason": "stop",
                    }
                ],
                "usage": usage,
            }
            assert text.pop("id").startswith("cmpl-")
            assert isinstance(text.pop("created"), int)
            assert text == {
                "object": "text_completion",
                "model": "m",
                "choices": [{"index": 0, "text": "one two", "logprobs": None, "finish_reason": "stop"}],
                "usage": usage,
            }

    run(work)
