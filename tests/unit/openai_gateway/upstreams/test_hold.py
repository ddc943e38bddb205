"""Requests that wait while no server is up: until one comes, a while passes, or too many wait."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from openai_gateway.app import create_app
from python_llm.errors import CallerMistake, Unavailable
from tests.unit.openai_gateway.upstreams.conftest import READY, Behind, behind
from tests.unit.openai_gateway.upstreams.test_pooled import until

QUESTION = {"model": "m", "prompt": "p", "max_tokens": 3}


async def away(servers: Behind) -> None:
    servers.says["127.0.0.1:9"] = None
    await until(lambda: not servers.pool.able("m"))


async def post(servers: Behind) -> httpx.Response:
    wire = httpx.ASGITransport(app=create_app(servers.upstream))
    async with httpx.AsyncClient(transport=wire, base_url="http://gateway") as client:
        return await client.post("/v1/completions", json=QUESTION)


def held(servers: Behind) -> float:
    (line,) = (line for line in servers.metrics.splitlines() if line.startswith("triton_llm_gateway_held_requests "))
    return float(line.split()[1])


def test_a_request_waits_for_a_server_and_is_counted_while_it_does() -> None:
    async def run() -> None:
        async with behind(1, missed_looks=1, hold_seconds=60.0) as servers:
            await away(servers)
            asking = asyncio.create_task(post(servers))
            await until(lambda: held(servers) == 1)
            assert not asking.done()
            servers.says["127.0.0.1:9"] = dict(READY)
            answer = await asyncio.wait_for(asking, 60)
            assert (answer.status_code, answer.json()["choices"][0]["finish_reason"] is not None) == (200, True)
            assert held(servers) == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("changes", "least"),
    [({}, 0.0), ({"hold_seconds": 0.3}, 0.3), ({"hold_seconds": 60.0, "hold_requests": 0}, 0.0)],
)
def test_where_none_comes_or_nobody_may_wait_it_is_refused_as_ever(changes: dict[str, Any], least: float) -> None:
    async def run() -> None:
        async with behind(1, missed_looks=1, **changes) as servers:
            await away(servers)
            begin = time.monotonic()
            answer = await asyncio.wait_for(post(servers), 30)
            assert time.monotonic() - begin >= least
            assert answer.status_code == 503
            assert held(servers) == 0

    asyncio.run(run())


def test_of_a_crowd_that_comes_at_once_no_more_wait_than_may() -> None:
    async def run() -> None:
        async with behind(1, missed_looks=1, hold_seconds=60.0, hold_requests=2) as servers:
            await away(servers)
            asking = [asyncio.create_task(post(servers)) for _ in range(6)]
            await until(lambda: sum(task.done() for task in asking) >= 4 or held(servers) > 2)
            assert held(servers) == 2
            assert [task.result().status_code for task in asking if task.done()] == [503] * 4
            servers.says["127.0.0.1:9"] = dict(READY)
            answers = await asyncio.wait_for(asyncio.gather(*asking), 60)
            assert sorted(answer.status_code for answer in answers) == [200] * 2 + [503] * 4

    asyncio.run(run())


def test_a_gateway_that_stops_lets_go_of_who_waits() -> None:
    async def run() -> None:
        async with behind(1, missed_looks=1, hold_seconds=60.0) as servers:
            await away(servers)
            asking = asyncio.create_task(post(servers))
            await until(lambda: held(servers) == 1)
            servers.pool.stop(Unavailable("draining", "gateway: it stops."))
            assert (await asyncio.wait_for(asking, 30)).status_code == 503

    asyncio.run(run())


def test_a_negative_wait_is_refused() -> None:
    async def run() -> None:
        async with behind(1, hold_seconds=-1.0):
            pass

    with pytest.raises(CallerMistake, match="--hold-seconds -1: it must be 0 or more"):
        asyncio.run(run())
