"""OpenAI's batch bodies in, OpenAI's shapes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triton_llm_client.log_probs import Alternative, TokenText
from triton_llm_client.openai_log_probs import chat_log_probs, completion_log_probs
from triton_llm_client.openai_params import params_of_body
from triton_llm_client.params import GenerateParams
from triton_llm_client.results import Choice

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOLD = {"return_log_probs": True, "return_logprobs": True}


@pytest.mark.parametrize(
    ("chat", "body", "params"),
    [
        (True, {"n": 3, "temperature": 0.5}, {"num_return_sequences": 3, "temperature": 0.5}),
        (True, {"logprobs": True, "top_logprobs": 2}, {**TOLD, "top_log_probs": 2}),
        (True, {"logprobs": True, "top_logprobs": 0}, TOLD),
        (True, {"logprobs": False}, {}),
        (False, {"logprobs": 3}, {**TOLD, "top_log_probs": 3}),
        (False, {"logprobs": 0}, TOLD),
        (True, {"response_format": {"type": "text"}}, {}),
        (True, {"response_format": {"type": "json_object"}}, {"guided_decoding_guide_type": "json"}),
        (
            True,
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "s", "strict": True, "schema": SCHEMA},
                }
            },
            {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": SCHEMA},
        ),
        (True, {"logit_bias": {"5": -100}}, {"logit_bias": {"5": -100}}),
        (True, {"logit_bias": {}}, {"logit_bias": {}}),
        (
            False,
            {"presence_penalty": 0.5, "frequency_penalty": -0.5, "seed": 3},
            {"presence_penalty": 0.5, "frequency_penalty": -0.5, "seed": 3},
        ),
        (True, {"stop": "x"}, {"stop_words": "x"}),
        (True, {"stop": ["x", "y"]}, {"stop_words": ["x", "y"]}),
        (True, {"stop": []}, {}),
        (True, {"max_completion_tokens": 5, "user": "u", "tools": []}, {"max_tokens": 5}),
        (True, {"top_k": 5, "repetition_penalty": 1.5}, {"top_k": 5, "repetition_penalty": 1.5}),
        (True, {"n": None, "logprobs": None}, {}),
    ],
)
def test_a_body_becomes_parameters(chat: bool, body: dict[str, Any], params: dict[str, Any]) -> None:
    assert params_of_body(body, chat=chat) == GenerateParams(**params)


CHOICE = Choice(
    index=0,
    text="aé",
    output_ids=(1, 2),
    finish_reason="length",
    stop_reason=None,
    output_tokens=2,
    log_probs=(-0.5, -2.5),
    top_log_probs=((Alternative(1, "a", -0.5, b"a"),), (Alternative(3, "\ufffd", -1.0, b"\xc3"),)),
    tokens=(TokenText(1, "a", b"a"), TokenText(2, "é", "é".encode())),
)


def test_log_probs_of_a_chat() -> None:
    told = chat_log_probs(CHOICE)
    assert told == {
        "content": [
            {
                "token": "a",
                "logprob": -0.5,
                "bytes": [97],
                "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [97]}],
            },
            {
                "token": "é",
                "logprob": -2.5,
                "bytes": [195, 169],
                "top_logprobs": [{"token": "\ufffd", "logprob": -1.0, "bytes": [195]}],
            },
        ],
        "refusal": None,
    }


def test_log_probs_of_a_completion() -> None:
    assert completion_log_probs(CHOICE) == {
        "tokens": ["a", "é"],
        "token_logprobs": [-0.5, -2.5],
        "top_logprobs": [{"a": -0.5}, {"bytes:\\xc3": -1.0, "é": -2.5}],
        "text_offset": [0, 1],
    }


def test_log_probs_that_were_not_asked_for_are_null() -> None:
    plain = Choice(0, "a", (1,), "stop", None, 1)
    assert chat_log_probs(plain) is None
    assert completion_log_probs(plain) is None


def test_a_custom_id_that_comes_again_is_that_lines_error(batch: Callable[..., int], output: Path, triton: Any) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    line = {"custom_id": "same", "method": "POST", "url": "/v1/chat/completions", "body": body}
    a, b = ({"prompt": f"words {word}", "custom_id": word} for word in "ab")
    assert batch([line, a, line, {**b, "custom_id": "same"}]) == 2
    first, other, second, third = (json.loads(text) for text in output.read_text("utf-8").splitlines())
    assert (first["error"], other["error"]) == (None, None)
    assert second["response"]["status_code"] == 400
    assert second["error"]["code"] == third["error"]["reason"] == "duplicate_custom_id"
    assert "custom_id 'same': line 1 has it already" in second["error"]["message"]
    assert len(triton.requests) == 2
    assert batch([line, a, {**line, "custom_id": "new"}, b], "--resume") == 2  # another input's output
