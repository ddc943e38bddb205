"""What is counted, told and logged of a request."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Coroutine
from typing import Any

import pytest

from openai_gateway.protection.access_log import JsonLines
from openai_gateway.protection.settings import Limits
from openai_gateway.request_record import RECORD
from tests.unit.openai_gateway.protection.conftest import ASK, bearer, guarded, keys


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_requests_over_the_rate_get_429_with_when_to_come_again() -> None:
    async def body() -> None:
        async with guarded(keys_text=keys(a={"requests_per_minute": 2}, b={})) as gateway:
            told = [await gateway.ask("a") for _ in range(3)]
            assert [answer.status_code for answer in told] == [200, 200, 429]
            assert [answer.headers["x-ratelimit-remaining-requests"] for answer in told] == ["1", "0", "0"]
            assert told[0].headers["x-ratelimit-limit-requests"] == "2"
            assert re.fullmatch(r"1m0s|59s", told[0].headers["x-ratelimit-reset-requests"])
            error = told[2].json()["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
            assert 1 <= int(told[2].headers["retry-after"]) <= 60
            assert (await gateway.ask("b")).status_code == 200, "another key has its own"
            assert "x-ratelimit-limit-requests" not in (await gateway.ask("b")).headers
            assert (await gateway.client.get("/v1/models", headers=bearer("a"))).status_code == 200

    run(body())


@pytest.mark.parametrize("streams", [False, True])
def test_tokens_are_reserved_at_the_start_and_settled_at_the_end(streams: bool) -> None:
    async def body() -> None:
        async with guarded(keys_text=keys(a={"tokens_per_minute": 100})) as gateway:
            answer = await gateway.ask("a", max_tokens=50, stream=streams)
            assert answer.status_code == 200
            after = await gateway.ask("a", max_tokens=60, stream=streams)
            assert after.status_code == 429, "55 were used: 5 of the prompt, 50 of the answer"
            assert "55 of its 100 tokens a minute are spent" in after.json()["error"]["message"]
            assert after.headers["x-ratelimit-remaining-tokens"] == "45"
            assert (await gateway.ask("a", max_tokens=30, stream=streams)).status_code == 200
            assert (await gateway.ask("a", max_tokens=500)).status_code == 400

    run(body())


def test_a_days_quota_ends_in_openais_insufficient_quota() -> None:
    async def body() -> None:
        async with guarded(keys_text=keys(a={"tokens_per_day": 20})) as gateway:
            assert (await gateway.ask("a", max_tokens=15)).status_code == 200
            refused = await gateway.ask("a", max_tokens=1)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "insufficient_quota"
            assert int(refused.headers["retry-after"]) > 86_000

    run(body())


def test_a_place_is_held_until_the_stream_ends_or_its_client_leaves() -> None:
    async def body() -> None:
        async with guarded(limits=Limits(max_running=1)) as gateway:
            gateway.upstream.gate.clear()
            first = asyncio.create_task(gateway.ask(stream=True))
            await gateway.upstream.begun.wait()
            assert (await gateway.ask()).status_code == 429
            assert not first.done()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert gateway.upstream.left == 1
            gateway.upstream.gate.set()
            assert (await gateway.ask()).status_code == 200

    run(body())


def test_a_stream_that_is_left_costs_what_was_streamed() -> None:
    async def body() -> None:
        async with guarded(limits=Limits(tokens_per_minute=100)) as gateway:
            gateway.upstream.gate.clear()
            left = asyncio.create_task(gateway.ask(stream=True, max_tokens=90))
            await gateway.upstream.begun.wait()
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
            gateway.upstream.gate.set()
            answer = await gateway.ask(max_tokens=1)
            assert answer.headers["x-ratelimit-remaining-tokens"] == str(100 - 1 - 1 - 6), (
                "1 of the prompt, by estimate"
            )

    run(body())


def test_every_answer_has_an_id_and_the_clients_own_is_kept() -> None:
    async def body() -> None:
        async with guarded(keys_text=keys(a={})) as gateway:
            answers = [await gateway.ask("a"), await gateway.ask(), await gateway.client.get("/nowhere")]
            assert len({answer.headers["x-request-id"] for answer in answers}) == 3
            named = {**bearer("a"), "X-Request-Id": "mine-1"}
            for _ in range(2):
                answer = await gateway.client.post("/v1/completions", json=ASK, headers=named)
                assert answer.headers["x-request-id"] == "mine-1"
            ids = [request_id for _, _, request_id in gateway.upstream.asked]
            assert ids[0] == answers[0].headers["x-request-id"]
            assert all(one.startswith("mine-1-") for one in ids[1:])
            assert len(set(ids)) == 3, "the generator refuses two running requests of the same id"

    run(body())


@pytest.mark.parametrize("said", ["a b", "x" * 65, "a\u00e9", "<script>", "a/b"])
def test_an_id_that_cannot_be_one_is_refused(said: str) -> None:
    async def body() -> None:
        async with guarded() as gateway:
            headers = [(b"x-request-id", said.encode("latin-1"))]
            answer = await gateway.client.get("/health/live", headers=headers)
            assert answer.status_code == 400
            assert answer.headers["x-request-id"] not in ("", said)

    run(body())


def test_the_log_has_a_line_for_each_request_without_prompt_answer_or_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "openai_gateway.access")

    async def body() -> None:
        async with guarded(keys_text=keys(alice={"tenant": "team"})) as gateway:
            gateway.upstream.word = "SECRETANSWER"
            await gateway.ask("alice", prompt="SECRETPROMPT", max_tokens=2, stream=True)
            await gateway.ask("SECRETKEY", prompt="SECRETPROMPT")
            await gateway.client.get("/v1/models?key=SECRETKEY", headers=bearer("alice"))

    run(body())
    lines = [JsonLines().format(record) for record in caplog.records if record.name == "openai_gateway.access"]
    assert "SECRET" not in "".join(lines)
    asked, refused, listed = map(json.loads, lines)
    assert (asked["key"], asked["tenant"], asked["status"], asked["complete"]) == ("alice", "team", 200, True)
    assert (asked["model"], asked["prompt_tokens"], asked["completion_tokens"]) == ("m", 5, 2)
    assert 0 <= asked["first_byte_seconds"] <= asked["seconds"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", asked["time"])
    assert (refused["key"], refused["status"], "model" in refused) == ("", 401, False)
    assert listed["path"] == "/v1/models"


def test_a_path_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "openai_gateway.access")

    async def body() -> None:
        async with guarded() as gateway:
            await gateway.client.get('/x%0a{"key": "boss"}' + "y" * 1000)

    run(body())
    line = JsonLines().format(next(record for record in caplog.records if record.name == "openai_gateway.access"))
    assert "\n" not in line
    assert len(json.loads(line)["path"]) == 200


def test_nothing_of_a_request_is_left_behind() -> None:
    async def body() -> None:
        async with guarded() as gateway:
            await gateway.ask()
        assert RECORD.get(None) is None

    run(body())
