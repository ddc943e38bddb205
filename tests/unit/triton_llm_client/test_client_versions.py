"""A version of the model is named on both wires; without one Triton chooses."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from triton_llm_client import AsyncClient, GenerateParams
from triton_llm_client.chunks import Chunk
from triton_llm_client.grpc_transport import GrpcTransport
from triton_llm_client.http_transport import HttpTransport
from triton_llm_client.transport import Call


@pytest.mark.parametrize(("version", "route"), [("3", "m/versions/3/generate"), ("", "m/generate")])
def test_http_names_it_in_the_route(version: str, route: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json={"text_output": "x", "output_ids": 1})

    async def run() -> list[Chunk]:
        wire = HttpTransport("http://host:1", transport=httpx.MockTransport(answer))
        return [chunk async for chunk in wire.chunks(Call("m", "r", {"text_input": ("x",)}, False, version=version))]

    assert [chunk.text for chunk in asyncio.run(run())] == ["x"]
    assert asked == [f"/v2/models/{route}"]


def test_grpc_names_it_in_the_message() -> None:
    wire = GrpcTransport("host:1")
    assert wire._request(Call("m", "r", {"text_input": ("x",)}, True, version="3")).model_version == "3"
    assert wire._request(Call("m", "r", {"text_input": ("x",)}, True)).model_version == ""


@pytest.mark.parametrize("deltas", [True, False])
def test_the_client_passes_the_version_and_asks_for_deltas_or_not(deltas: bool) -> None:
    calls: list[Call] = []

    class Wire(GrpcTransport):
        async def chunks(self, call):  # type: ignore[no-untyped-def]
            calls.append(call)
            yield Chunk("x")

    async def run() -> None:
        client = AsyncClient(model="m", version="2", transport=Wire("host:1"))
        async for _ in client.stream("x", GenerateParams(), deltas=deltas):
            pass

    asyncio.run(run())
    assert [(call.version, call.stream) for call in calls] == [("2", deltas)]
