"""What bad input gets: OpenAI's shape, the right status, and a sentence that helps."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from openai_gateway.api_settings import ApiSettings
from openai_gateway.app import create_app
from openai_gateway.upstream import ModelCard
from python_llm.errors import (
    DeadlineExceeded,
    EngineFailure,
    InvalidRequest,
    NotFound,
    ServeError,
    Unavailable,
    Unsupported,
)
from scripted_upstream import ScriptedUpstream
from tests.unit.openai_gateway.api import CHAT, COMPLETION, api, run
from triton_llm_client import ServerUnreachable

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
OTHER = {"type": "function", "function": {"name": "sub"}}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    told = answer.json()
    assert told.keys() == {"error"}
    error: dict[str, Any] = told["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"].endswith((".", "?"))
    return error


@pytest.mark.parametrize(
    ("raw", "code", "said"),
    [
        (b"", "invalid_json", "send a JSON object"),
        (b"{", "invalid_json", "EOF while parsing"),
        (b"[]", "invalid_type", "body"),
        (b'"text"', "invalid_type", "body"),
        (b"\xff\xfe", "invalid_json", "no JSON"),
        (b'{"model": "m", "prompt": "\xff"}', "invalid_json", "no JSON"),
        (b'{"model": "m", "prompt": "\\ud83d"}', "invalid_json", "surrogate"),
        (b'{"model": "m", "prompt": "x", "stop": ["\\udc00"]}', "invalid_json", "surrogate"),
        (b'{"model": "m", "prompt": "x", "temperature": NaN}', "invalid_type", "temperature"),
        (b'{"model": "m", "prompt": "x", "temperature": 1e999}', "invalid_type", "temperature"),
        (b'{"prompt": ' + b"[" * 20_000, "invalid_json", "recursion limit"),
    ],
)
def test_what_is_no_json_of_ours_is_refused(raw: bytes, code: str, said: str) -> None:
    async def work() -> None:
        async with api() as gateway:
            for path in ("/v1/completions", "/v1/chat/completions"):
                answer = await gateway.client.post(path, content=raw.replace(b'"prompt"', b'"prompt"'))
                assert answer.status_code == 400
                error = error_of(answer)
                assert error["type"] == "invalid_request_error"
                if path == "/v1/completions":
                    assert error["code"] == code
                    assert said in error["message"]
            assert not gateway.upstream.asked

    run(work)


COMPLETIONS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"promt": "x"}, "unknown_parameter", "promt", "did you mean 'prompt'?"),
    ({"zz": 1, "yy": 2}, "unknown_parameter", "zz", "'zz', 'yy'; leave it out"),
    ({"prompt": []}, "empty_prompt", "prompt", "1 to 2048"),
    ({"prompt": [[]]}, "empty_prompt", "prompt", "at least one token"),
    ({"prompt": ["x", 1]}, "invalid_type", "prompt", "prompt"),
    ({"prompt": None}, "invalid_type", "prompt", "None"),
    ({"prompt": ["x"] * 2049}, "empty_prompt", "prompt", "2049 prompts"),
    (
        {"prompt": list(range(64))},
        "context_length_exceeded",
        "prompt",
        "64 tokens; prompt and output together may have 64",
    ),
    ({"prompt": [2**40]}, "out_of_range", "prompt", "1099511627776"),
    ({"max_tokens": "5"}, "invalid_type", "max_tokens", "'5'"),
    ({"max_tokens": 5.5}, "invalid_type", "max_tokens", "5.5"),
    ({"max_tokens": 2**40}, "out_of_range", "max_tokens", "INT32"),
    ({"temperature": 1e300}, "out_of_range", "temperature", "finite"),
    ({"n": 0}, "invalid_type", "n", "greater than or equal to 1"),
    ({"n": 129}, "invalid_type", "n", "less than or equal to 128"),
    ({"best_of": 2}, "unsupported_parameter", "best_of", "best_of"),
    ({"suffix": "x"}, "unsupported_parameter", "suffix", "suffix"),
    ({"logprobs": True}, "invalid_type", "logprobs", "logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream_options", "stream is not true"),
    ({"stream": True, "stream_options": {"usage": True}}, "unknown_parameter", "stream_options.usage", "usage"),
    ({"response_format": {"type": "xml"}}, "unsupported_parameter", "response_format", "json_schema"),
    ({"response_format": {"type": "json_schema"}}, "wrong_type", "response_format.", "schema"),
    ({"logit_bias": {"1": "x"}}, "invalid_type", "logit_bias", "logit_bias"),
]
CHATS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"messages": []}, "invalid_type", "messages", "at least 1"),
    ({"messages": "hi"}, "invalid_type", "messages", "'hi'"),
    ({"messages": None}, "invalid_type", "messages", "None"),
    ({"message": []}, "unknown_parameter", "message", "did you mean 'messages'?"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "given_twice", "max_completion_tokens", "given twice"),
    ({"functions": [{}]}, "unsupported_parameter", "functions", "functions"),
    ({"modalities": ["audio"]}, "unsupported_parameter", "modalities", "modalities"),
    ({"logprobs": 3}, "invalid_type", "logprobs", "logprobs"),
    ({"tool_choice": "required"}, "tools_missing", "tool_choice", "there are no tools"),
    ({"tool_choice": "any", "tools": [TOOL]}, "invalid_type", "tool_choice", "tool_choice"),
    ({"tools": [TOOL, TOOL]}, "given_twice", "tools", "same name"),
    ({"tools": [{"type": "retrieval"}]}, "invalid_type", "tools[", "function"),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "mul"}}},
        "unknown_function",
        "tool_choice",
        "'mul' is none of the tools: add",
    ),
    (
        {"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
        "given_twice",
        "tool_choice",
        "response_format",
    ),
    ({"tools": [TOOL, OTHER], "model": "plain"}, "no_tools", "tools", "model 'plain'"),
]


@pytest.mark.parametrize(("fields", "code", "param", "said"), COMPLETIONS)
def test_fields_of_a_completion_that_are_refused(fields: dict[str, Any], code: str, param: str, said: str) -> None:
    check_refused("/v1/completions", {**COMPLETION, **fields}, code, param, said)


@pytest.mark.parametrize(("fields", "code", "param", "said"), CHATS)
def test_fields_of_a_chat_that_are_refused(fields: dict[str, Any], code: str, param: str, said: str) -> None:
    check_refused("/v1/chat/completions", {**CHAT, **fields}, code, param, said)


def check_refused(path: str, body: dict[str, Any], code: str, param: str, said: str) -> None:
    async def work() -> None:
        async with api() as gateway:
            answer = await gateway.client.post(path, json=body)
            assert answer.status_code == 400, answer.text
            error = error_of(answer)
            assert (error["type"], error["code"]) == ("invalid_request_error", code)
            assert str(error["param"]).startswith(param)
            assert said in error["message"]
            assert len(error["message"]) < 600

    run(work)


@pytest.mark.parametrize("missing", ["model", "prompt", "messages"])
def test_a_field_that_is_missing_is_named(missing: str) -> None:
    async def work() -> None:
        body = {"model": "m", ("messages" if missing == "messages" else "prompt"): "x"}
        body.pop(missing)
        async with api() as gateway:
            path = "/v1/chat/completions" if missing == "messages" else "/v1/completions"
            error = error_of(await gateway.client.post(path, json=body))
            assert (error["code"], error["param"]) == ("missing_required_parameter", missing)

    run(work)


def test_an_unknown_model_gets_404_with_the_known() -> None:
    async def work() -> None:
        async with api() as gateway:
            for answer in (
                await gateway.chat(model="gpt-4"),
                await gateway.complete(model="gpt-4"),
                await gateway.client.get("/v1/models/gpt-4"),
                await gateway.client.post("/generate", json={"inputs": "x", "model": "gpt-4"}),
            ):
                assert answer.status_code == 404
                assert "model 'gpt-4': it does not exist; known models: m, plain." in answer.text
            error = error_of(await gateway.chat(model="gpt-4"))
            assert (error["code"], error["param"], error["type"]) == (
                "model_not_found",
                "model",
                "invalid_request_error",
            )

    run(work)


def test_too_large_a_body_gets_413_however_it_comes() -> None:
    async def work() -> None:
        async with api(settings=ApiSettings(max_body_bytes=100)) as gateway:

            async def pieces() -> Any:
                for _ in range(20):
                    yield b" " * 10

            for answer in (
                await gateway.complete(prompt="x" * 100),
                await gateway.client.post("/v1/completions", content=pieces()),
            ):
                assert answer.status_code == 413
                error = error_of(answer)
                assert error["code"] == "body_too_large"
                assert "100 bytes" in error["message"]
            assert (await gateway.complete(prompt="x" * 20)).status_code == 200

    run(work)


FAILURES: list[tuple[ServeError, int, str, str, str | None, str | None]] = [
    (
        InvalidRequest(
            "prompt_too_long", "prompt: at least 99 tokens; prompt and output together may have 64: shorten."
        ),
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "prompt",
        None,
    ),
    (
        InvalidRequest("request_too_long", "request 'x': 99 prompt tokens; together at most 64: shorten it."),
        400,
        "invalid_request_error",
        "context_length_exceeded",
        None,
        None,
    ),
    (
        InvalidRequest("temperature_out_of_range", "temperature 3: it must be from 0 to 2."),
        400,
        "invalid_request_error",
        "temperature_out_of_range",
        "temperature",
        None,
    ),
    (
        InvalidRequest("too_many_stop_words", "stop_words: 99; at most 16."),
        400,
        "invalid_request_error",
        "too_many_stop_words",
        "stop",
        None,
    ),
    (
        InvalidRequest("invalid_utf8", "messages: '\\ud83d' is half a surrogate pair; send whole characters."),
        400,
        "invalid_request_error",
        "invalid_utf8",
        "messages",
        None,
    ),
    (
        Unsupported("not_supported", "beam_width: no."),
        400,
        "invalid_request_error",
        "not_supported",
        "beam_width",
        None,
    ),
    (NotFound("unknown_model", "model 'm': gone."), 404, "invalid_request_error", "model_not_found", "model", None),
    (
        Unavailable("queue_full", "queue: full; ask again: retry after 1.2 s."),
        429,
        "rate_limit_error",
        "queue_full",
        None,
        "2",
    ),
    (Unavailable("draining", "server: it drains; ask again."), 503, "server_error", "draining", None, "1"),
    (ServerUnreachable("grpc://a:1", "refused"), 503, "server_error", "unreachable", None, "1"),
    (DeadlineExceeded("deadline_exceeded", "request: too late."), 504, "server_error", "deadline_exceeded", None, None),
    (EngineFailure("engine_failed", "engine: it failed."), 500, "server_error", "engine_failed", None, None),
]


@pytest.mark.parametrize(("failure", "status", "kind", "code", "param", "after"), FAILURES)
@pytest.mark.parametrize("streams", [False, True])
def test_what_the_generator_says_comes_in_openais_shape(
    failure: ServeError, status: int, kind: str, code: str, param: str | None, after: str | None, streams: bool
) -> None:
    async def work() -> None:
        async with api([failure]) as gateway:
            for answer in (await gateway.chat(stream=streams), await gateway.complete(stream=streams)):
                assert answer.status_code == status, answer.text
                error = error_of(answer)
                assert (error["type"], error["code"], error["param"]) == (kind, code, param)
                assert answer.headers.get("retry-after") == after

    run(work)


def test_paths_and_methods_that_are_not_there() -> None:
    async def work() -> None:
        async with api() as gateway:
            answer = await gateway.client.get("/v1/embeddings")
            assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_url")
            answer = await gateway.client.get("/v1/chat/completions")
            assert (answer.status_code, error_of(answer)["code"]) == (405, "method_not_allowed")
            assert answer.headers["allow"] == "POST"

    run(work)


def test_a_bug_of_ours_is_told_without_its_insides(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScriptedUpstream):
        async def models(self) -> list[ModelCard]:
            raise ZeroDivisionError("secret")

    async def work() -> None:
        wire = httpx.ASGITransport(create_app(Broken([[]], [])), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=wire, base_url="http://127.0.0.1") as client:
            answer = await client.post("/v1/completions", content=json.dumps(COMPLETION))
            assert answer.status_code == 500
            assert error_of(answer)["code"] == "internal"
            assert "secret" not in answer.text

    run(work)
    assert "POST /v1/completions failed" in caplog.text
