from __future__ import annotations

import asyncio

import grpc
import httpx
import pytest

from python_llm.errors import EngineFailure, InvalidRequest, NotFound, ServeError, Unavailable
from triton_llm_client import AsyncClient, ServerUnreachable
from triton_llm_client.failures import BY_GRPC_STATUS, from_grpc, from_http, from_message
from triton_llm_client.http_transport import HttpTransport


def test_every_grpc_status_has_a_type() -> None:
    assert set(BY_GRPC_STATUS) == {status.name for status in grpc.StatusCode} - {"OK"}


@pytest.mark.parametrize("status", sorted(BY_GRPC_STATUS))
def test_a_head_of_ours_wins_over_the_status(status: str) -> None:
    error = from_grpc("u", status, "in ensemble: [UNAVAILABLE queue_full] queue: 256 wait; ask later.")
    assert type(error) is Unavailable
    assert error.reason == "queue_full"
    assert error.text == "queue: 256 wait; ask later."


@pytest.mark.parametrize("status", sorted(set(BY_GRPC_STATUS) - {"UNAVAILABLE"}))
def test_without_a_head_the_status_decides(status: str) -> None:
    kind, reason = BY_GRPC_STATUS[status]
    error = from_grpc("u", status, "something else")
    assert (type(error), error.reason, error.text) == (kind, reason, "something else")


def test_an_unavailable_connection_is_unreachable() -> None:
    error = from_grpc("grpc://h:1", "UNAVAILABLE", "connection refused")
    assert isinstance(error, ServerUnreachable)
    assert "grpc://h:1" in error.text
    assert error.exit_code == 1


@pytest.mark.parametrize(
    ("status", "message", "kind", "reason"),
    [
        (400, "[NOT_FOUND no_such_request] request 'x': not running.", NotFound, "no_such_request"),
        (400, "unexpected shape", InvalidRequest, "refused_by_triton"),
        (400, "Request for unknown model: 'x' is not found", NotFound, "unknown_model"),
        (404, "", NotFound, "not_found"),
        (500, "failed to parse", EngineFailure, "internal"),
        (503, "busy", Unavailable, "unavailable"),
        (418, "teapot", EngineFailure, "internal"),
    ],
)
def test_http_statuses(status: int, message: str, kind: type[ServeError], reason: str) -> None:
    error = from_http(status, message)
    assert (type(error), error.reason) == (kind, reason)


def test_a_bare_message_is_tritons_refusal_unless_the_backend_died() -> None:
    assert type(from_message("unexpected inference input 'x'")) is InvalidRequest
    assert type(from_message("Stub process 'x_0_0' is not healthy.")) is EngineFailure
    assert type(from_message("[INVALID_ARG x] y")) is InvalidRequest


@pytest.mark.parametrize(
    "cause",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("cut"),
        httpx.ConnectTimeout(""),
    ],
)
def test_every_transport_fault_is_unreachable(cause: httpx.TransportError) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise cause

    async def ask() -> None:
        wire = HttpTransport("http://host:1", transport=httpx.MockTransport(fail))
        async with AsyncClient(transport=wire) as client:
            assert not await client.ready()
            await client.generate("hi")

    with pytest.raises(ServerUnreachable, match="http://host:1"):
        asyncio.run(ask())


def test_an_answer_that_is_no_json_is_reported_as_it_is() -> None:
    async def ask() -> None:
        wire = HttpTransport(
            "http://host:1", transport=httpx.MockTransport(lambda _: httpx.Response(502, text="<h1>proxy"))
        )
        async with AsyncClient(transport=wire) as client:
            await client.generate("hi")

    with pytest.raises(Unavailable, match="<h1>proxy"):
        asyncio.run(ask())
