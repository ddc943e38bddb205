"""Requests are shared among a model's versions as the operator says, over all servers that have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from openai_gateway.upstreams.facts import ModelFacts
from openai_gateway.upstreams.settings import UpstreamSettings
from python_llm.errors import CallerMistake
from tests.unit.openai_gateway.upstreams.conftest import Behind, behind
from triton_llm_client import GenerateParams

WEIGHTS = {"m": {"1": 80.0, "2": 20.0}}


def know(servers: Behind, versions: Mapping[str, Mapping[str, str]]) -> None:
    """As a look at each server's repository would find it."""
    for server in servers.pool.servers:
        server.models = {"m": ModelFacts(versions[server.name])}


async def asked(servers: Behind, count: int, model: str = "m") -> Counter[tuple[str, str]]:
    """(Server, version) of each request that came."""
    for number in range(count):
        async for _ in servers.upstream.stream(model, "p", GenerateParams(max_tokens=2), request_id=f"r{number}"):
            pass
    return Counter((name, call.version) for name, one in servers.generators.items() for call in one.calls)


def test_a_share_of_requests_goes_to_the_canary_and_only_where_it_is() -> None:
    async def run() -> None:
        async with behind(2, weights=WEIGHTS) as servers:
            old, new = servers.generators
            know(servers, {old: {"1": "READY"}, new: {"1": "READY", "2": "READY"}})
            found = await asked(servers, 400)
            assert (old, "2") not in found
            assert 50 < found[new, "2"] < 110, "a fifth of 400"
            assert found[old, "1"] > 0
            assert found[new, "1"] > 0
            assert found.total() == 400

    asyncio.run(run())


def test_a_version_that_is_not_ready_leaves_its_share_to_the_others() -> None:
    async def run() -> None:
        async with behind(1, weights=WEIGHTS) as servers:
            (name,) = servers.generators
            know(servers, {name: {"1": "READY", "2": "LOADING"}})
            assert await asked(servers, 50) == {(name, "1"): 50}

    asyncio.run(run())


def test_who_names_a_version_gets_it_whatever_the_weights() -> None:
    async def run() -> None:
        async with behind(1, weights=WEIGHTS) as servers:
            (name,) = servers.generators
            know(servers, {name: {"1": "READY", "2": "READY"}})
            assert await asked(servers, 20, model="m:2") == {(name, "2"): 20}
            assert [card.name for card in await servers.upstream.models()] == ["m", "m:1", "m:2"]

    asyncio.run(run())


@pytest.mark.parametrize("shares", [{}, {"1": 0.0}, {"1": -1.0, "2": 2.0}, {"1": float("nan")}, {"1": float("inf")}])
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(CallerMistake, match=r"weights of 'm'"):
        UpstreamSettings(weights={"m": shares})
