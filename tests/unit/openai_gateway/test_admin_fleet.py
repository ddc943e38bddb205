"""Models loaded and unloaded on several servers, in order, through the operator's routes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx

from openai_gateway.metrics import GatewayMetrics
from openai_gateway.serve import gateway_app
from openai_gateway.settings import GatewaySettings
from openai_gateway.upstreams.address import parse_address
from openai_gateway.upstreams.triton_rpc import IndexRow
from python_llm.errors import EngineFailure
from tests.unit.openai_gateway.upstreams.conftest import Behind, behind

ROLES = ["m-tokenizer", "m-generator", "m-detokenizer", "m-unary", "m"]


class FakeRpc:
    """Triton's model control. ``fails``: a model that cannot be loaded."""

    def __init__(self, log: list[str], models: list[str], state: str) -> None:
        self.log, self.states = log, dict.fromkeys(models, state)
        self.fails = ""

    async def repository(self, timeout: float) -> list[IndexRow]:
        return [IndexRow(name, "1" if state else "", state, "") for name, state in reversed(self.states.items())]

    async def index(self, timeout: float) -> list[IndexRow]:
        return [row for row in await self.repository(timeout) if row.state]

    async def parameters(self, model: str, timeout: float) -> dict[str, str]:
        return {}

    async def load(self, model: str, timeout: float) -> None:
        self.log.append(f"load {model}")
        if model == self.fails:
            raise EngineFailure("internal", f"{model}: no memory")
        self.states[model] = "READY"

    async def unload(self, model: str, timeout: float) -> None:
        self.log.append(f"unload {model}")
        self.states[model] = "UNAVAILABLE"

    async def close(self) -> None:
        """Nothing is open."""


def fake(servers: Behind, state: str) -> tuple[list[FakeRpc], list[list[str]]]:
    logs: list[list[str]] = []
    rpcs = []
    for server in servers.pool.servers:
        logs.append([])
        rpcs.append(FakeRpc(logs[-1], [*ROLES, "other"], state))
        server.rpc = rpcs[-1]  # type: ignore[assignment]
    return rpcs, logs


def operator(servers: Behind) -> httpx.AsyncClient:
    settings = GatewaySettings(upstreams=(parse_address("127.0.0.1:1"),))
    app = gateway_app(servers.upstream, settings, GatewayMetrics())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:9000")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_models_roles_are_loaded_in_order_on_every_server_and_unloaded_against_it() -> None:
    async def body() -> None:
        async with behind(2) as servers, operator(servers) as client:
            _, logs = fake(servers, "")
            (before,) = (await client.get("/admin/models")).json()["data"]
            assert (before["id"], before["state"], before["versions"]) == ("m", "unavailable", [])
            loaded = await client.post("/admin/models/m/load")
            assert loaded.status_code == 200
            assert loaded.json()["state"] == "ready"
            assert set(loaded.json()["servers"].values()) == {"ready"}
            assert loaded.json()["versions"] == [{"version": "1", "state": "ready", "reason": ""}]
            assert logs == [[f"load {model}" for model in ROLES]] * 2
            unloaded = await client.post("/admin/models/m/unload")
            assert unloaded.json()["state"] == "unavailable"
            assert logs[0][5:] == [f"unload {model}" for model in reversed(ROLES)]

    run(body())


def test_what_was_new_goes_again_where_a_role_fails_and_the_server_is_named() -> None:
    async def body() -> None:
        async with behind(2) as servers, operator(servers) as client:
            rpcs, logs = fake(servers, "")
            rpcs[1].states["m-tokenizer"] = "READY"
            rpcs[1].fails = "m-detokenizer"
            failed = await client.post("/admin/models/m/load")
            assert failed.status_code == 500
            assert "server '127.0.0.2:9': m-detokenizer: no memory" in failed.json()["error"]["message"]
            assert logs[1][-1] == "unload m-generator"
            assert rpcs[1].states["m-tokenizer"] == "READY", "it was there before"
            assert rpcs[0].states["m"] == "READY"

    run(body())


def test_a_model_in_no_repository_is_not_found_and_nothing_is_touched() -> None:
    async def body() -> None:
        async with behind(1) as servers, operator(servers) as client:
            _, logs = fake(servers, "READY")
            for name in ("none", "other", "m-generator", "..%2Fm"):
                answer = await client.post(f"/admin/models/{name}/load")
                assert answer.status_code == 404
            assert "known: m." in (await client.post("/admin/models/none/unload")).json()["error"]["message"]
            assert logs == [[]]

    run(body())
