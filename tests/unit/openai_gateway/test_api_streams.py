"""How a streamed answer looks on the wire: heads, roles, ends, usage, and lines that no reader tears."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openai_gateway.api_settings import ApiSettings
from python_llm.errors import EngineFailure, Unavailable
from scripted_upstream import PAUSE, words
from tests.unit.openai_gateway.api import CHAT, COMPLETION, OpenStream, api, events_of, run
from triton_llm_client import Chunk

QUIET = ApiSettings(keep_alive_seconds=0.01)


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(
        choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
        for event in events
        for choice in event["choices"]
    )


def test_a_chat_begins_with_its_role_and_ends_with_its_reason() -> None:
    async def work() -> None:
        async with api() as gateway:
            answer = await gateway.chat(stream=True)
            assert answer.headers["x-accel-buffering"] == "no"
            assert answer.headers["cache-control"] == "no-cache"
            assert "content-length" not in answer.headers
            events = events_of(answer)
            assert [event["choices"][0]["delta"] for event in events] == [
                {"role": "assistant", "content": "", "refusal": None},
                {"content": "one"},
                {"content": " two"},
                {},
            ]
            assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, None, "stop"]
            assert {event["object"] for event in events} == {"chat.completion.chunk"}
            (one_id,) = {event["id"] for event in events}
            assert one_id == f"chatcmpl-{gateway.asked.request_id}"
            assert len({event["created"] for event in events}) == 1
            assert not any("usage" in event for event in events)

    run(work)


def test_a_completion_streams_text_alone() -> None:
    async def work() -> None:
        async with api() as gateway:
            events = events_of(await gateway.complete(stream=True))
            assert [event["choices"] for event in events] == [
                [{"index": 0, "text": "one", "logprobs": None, "finish_reason": None}],
                [{"index": 0, "text": " two", "logprobs": None, "finish_reason": "stop"}],
            ]
            assert {event["object"] for event in events} == {"text_completion"}

    run(work)


@pytest.mark.parametrize("route", ["chat", "complete"])
def test_usage_is_told_only_when_asked_for_and_in_the_last_event_alone(route: str) -> None:
    async def work() -> None:
        async with api() as gateway:
            ask = getattr(gateway, route)
            events = events_of(await ask(stream=True, stream_options={"include_usage": True}))
            assert events[-1]["choices"] == []
            assert events[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            assert [event["usage"] for event in events[:-1]] == [None] * (len(events) - 1)
            for options in (None, {}, {"include_usage": False}, {"include_usage": None}):
                events = events_of(await ask(stream=True, stream_options=options))
                assert not any("usage" in event for event in events)

    run(work)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("said", "told"), [("stop", "stop"), ("length", "length"), ("timeout", "length")])
def test_the_reason_is_the_generators(said: str, told: str, streams: bool) -> None:
    async def work() -> None:
        async with api(words("x", reason=said)) as gateway:
            for ask in (gateway.chat, gateway.complete):
                answer = await ask(stream=streams)
                last = events_of(answer)[-1] if streams else answer.json()
                assert last["choices"][0]["finish_reason"] == told

    run(work)


@pytest.mark.parametrize(
    "text",
    ["a\u2028b", "a\u2029b", "a\r\nb", "a\nb\n\ndata: [DONE]\n\n", "a\x85b", "a\x0bb\x0c\x1cc\x1dd\x1ee", "\ufeff"],
)
def test_what_some_readers_take_for_a_lines_end_stays_inside_the_line(text: str) -> None:
    async def work() -> None:
        async with api([Chunk(text, (1,), 0, "stop", 5, 1)]) as gateway:
            for ask in (gateway.chat, gateway.complete):
                assert text_of(events_of(await ask(stream=True))) == text  # events_of holds the lines
            assert (await gateway.chat()).json()["choices"][0]["message"]["content"] == text

    run(work)


@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION)])
def test_each_event_is_out_before_the_next_is_made(path: str, body: dict[str, Any]) -> None:
    async def work() -> None:
        async with (
            api([Chunk("one", (1,)), PAUSE, *words(" two")]) as gateway,
            OpenStream(gateway.app, path, {**body, "stream": True}).reading() as stream,
        ):
            told = await stream.next()
            while b"one" not in told:
                told += await stream.next()
            assert b"two" not in told
            assert stream.sent.empty()
            gateway.upstream.gate.set()
            while b"[DONE]" not in told:
                told += await stream.next()
            assert b"two" in told

    run(work)


def test_a_silent_stream_gets_comments_and_then_its_answer() -> None:
    async def work() -> None:
        body = {**CHAT, "stream": True}
        async with (
            api([PAUSE, *words("late")], settings=QUIET) as gateway,
            OpenStream(gateway.app, "/v1/chat/completions", body).reading() as stream,
        ):
            assert [await stream.next() for _ in range(3)] == [b": keep-alive\n\n"] * 3
            assert stream.head["status"] == 200
            gateway.upstream.gate.set()
            told = b""
            while b"[DONE]" not in told:
                told += await stream.next()
            assert told.count(b"late") == 1

    run(work)


def test_a_refusal_after_a_comment_is_an_event() -> None:
    async def work() -> None:
        refusal = Unavailable("draining", "server: it drains; ask again.")
        async with (
            api([PAUSE, refusal], settings=QUIET) as gateway,
            OpenStream(gateway.app, "/v1/chat/completions", {**CHAT, "stream": True}).reading() as stream,
        ):
            assert await stream.next() == b": keep-alive\n\n"
            gateway.upstream.gate.set()
            told = b""
            while b"[DONE]" not in told:
                told += await stream.next()
            assert b'data: {"error":{"message":"server: it drains; ask again.","type":"server_error"' in told

    run(work)


def test_a_failure_in_the_middle_is_an_event_and_no_reason_is_invented() -> None:
    async def work() -> None:
        async with api([Chunk("one", (1,)), EngineFailure("engine_failed", "engine: it failed.")]) as gateway:
            *before, last = events_of(await gateway.chat(stream=True))
            assert last == {
                "error": {
                    "message": "engine: it failed.",
                    "type": "server_error",
                    "param": None,
                    "code": "engine_failed",
                }
            }
            assert [event["choices"][0]["finish_reason"] for event in before] == [None, None]

    run(work)


def test_a_refusal_before_the_first_text_has_its_own_status() -> None:
    async def work() -> None:
        async with api([Unavailable("queue_full", "queue: full; ask again: retry after 2.5 s.")]) as gateway:
            answer = await gateway.chat(stream=True)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
            assert answer.json()["error"]["code"] == "queue_full"

    run(work)


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_that_leaves_ends_its_request(streams: bool) -> None:
    async def work() -> None:
        async with api([Chunk("one", (1,)), PAUSE, *words(" two")]) as gateway:
            for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION)):
                before = gateway.upstream.left
                async with OpenStream(gateway.app, path, {**body, "stream": streams}).reading() as stream:
                    if streams:
                        await stream.next()
                    else:
                        while len(gateway.upstream.asked) <= before:
                            await asyncio.sleep(0)
                    await stream.leave()
                assert gateway.upstream.left == before + 1

    run(work)
