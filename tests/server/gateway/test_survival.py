"""Answers outlive their servers: one of two Tritons is killed, drained, stopped in the midst of sixteen streams."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import partial

import httpx
import pytest

from gateway_under_test import GatewayUnderTest, running_gateway
from server_under_test import ServerUnderTest
from tests.server.gateway.conftest import Pair
from tests.server.gateway.streams import TOKENS, Stream, ask_all, requests_of_all_kinds

BODIES = requests_of_all_kinds()
# On a busy machine a server may go when its streams have ended or have nothing yet; that is not the case in question.
ATTEMPTS = 5


@pytest.fixture(scope="module")
def undisturbed(pair: Pair) -> list[Stream]:
    streams = ask_all(pair.gateway, BODIES)
    check_whole(streams)
    assert pair.gateway.metric("triton_llm_gateway_resumed_streams_total") == 0
    return streams


def test_kill_minus_nine_of_a_server_costs_nobody_an_answer(pair: Pair, undisturbed: list[Stream]) -> None:
    first, gateway = pair.servers[0], pair.gateway
    name = first.grpc_url

    def in_the_midst() -> bool:
        return resumed(pair, "unreachable") >= 3  # as many as open its breaker

    for _ in range(ATTEMPTS):
        killed = first.tritonserver()
        streams = ask_all(gateway, BODIES, partial(os.kill, killed, signal.SIGKILL))
        check_whole(streams)
        check_same(streams, undisturbed)
        first.wait_until(partial(is_another, first, killed), "the server back")
        if in_the_midst():
            break
        gateway.wait_until(partial(is_closed, gateway, name), "the breaker to close")
        gateway.wait_until(gateway.is_ready, "both servers")
    assert in_the_midst()
    assert gateway.metric("triton_llm_gateway_lost_streams_total") == 0
    assert gateway.metric("triton_llm_gateway_breaker_opened_total", server=name) >= 1
    gateway.wait_until(partial(is_closed, gateway, name), "the breaker to close")
    gateway.wait_until(gateway.is_ready, "both servers")


def test_a_server_that_is_drained_by_request_loses_its_streams_to_the_other(
    pair: Pair, undisturbed: list[Stream]
) -> None:
    before = resumed(pair, "draining")
    drained: list[str] = []

    def streams_of(name: str) -> int:
        return int(pair.gateway.servers()[name]["streams"])

    def drain() -> None:
        """The busier one: the other's streams may have ended by now."""
        name = max((server.grpc_url for server in pair.servers), key=streams_of)
        pair.gateway.post(f"/admin/servers/{name}/drain")
        drained.append(name)
        pair.gateway.wait_until(lambda: streams_of(name) == 0, "its streams to leave")

    for _ in range(ATTEMPTS):
        streams = ask_all(pair.gateway, BODIES, drain)
        check_whole(streams)
        check_same(streams, undisturbed)
        pair.gateway.post(f"/admin/servers/{drained.pop()}/restore")
        if resumed(pair, "draining") > before:
            break
    assert resumed(pair, "draining") > before
    assert pair.gateway.is_ready()


def test_sigterm_of_the_gateway_lets_streams_finish_and_drops_idle_connections(pair: Pair) -> None:
    with (
        running_gateway(pair.servers, pair.folder / "second.log", extra=["--grace-seconds", "120"]) as gateway,
        httpx.Client() as idle,
    ):
        assert idle.get(f"{gateway.url}/health/live").status_code == 200  # and the connection is kept alive
        streams = ask_all(gateway, BODIES, gateway.terminate)
        check_whole(streams)
        assert gateway.process.wait(120) == 0


def test_what_the_grace_does_not_hold_is_told_so(pair: Pair) -> None:
    bodies = [{**body, "max_tokens": 1500} for body in BODIES[:8]]
    with running_gateway(pair.servers, pair.folder / "third.log", extra=["--grace-seconds", "0"]) as gateway:
        streams = ask_all(gateway, bodies, gateway.terminate)
        assert gateway.process.wait(120) == 0
    cut = [stream for stream in streams if stream.error is not None]
    assert cut
    for stream in streams:
        if stream.error is None:
            check_whole([stream], 1500)
        else:
            assert stream.error["code"] == "draining"
            assert not stream.reasons


def resumed(pair: Pair, reason: str) -> float:
    return pair.gateway.metric("triton_llm_gateway_resumed_streams_total", reason=reason)


def is_another(server: ServerUnderTest, killed: int) -> bool:
    return server.tritonserver() not in (0, killed) and server.is_ready()


def is_closed(gateway: GatewayUnderTest, name: str) -> bool:
    """Somebody must ask: the breaker closes by a request that went well."""
    ask_all(gateway, [{**BODIES[0], "max_tokens": 8, "prompt": f"{n}"} for n in range(4)])
    return gateway.metric("triton_llm_gateway_breaker_state", server=name, state="closed") == 1


def check_whole(streams: Sequence[Stream], tokens: int = TOKENS) -> None:
    for stream in streams:
        count = stream.body.get("n", 1)
        assert stream.done
        assert stream.error is None, stream.error
        assert stream.reasons == dict.fromkeys(range(count), "length")
        assert stream.usage["completion_tokens"] == tokens * count
        assert stream.usage["prompt_tokens"] > 0


def check_same(streams: Sequence[Stream], undisturbed: Sequence[Stream]) -> None:
    """Every text is the undisturbed one, and the prompt was counted once."""
    for stream, calm in zip(streams, undisturbed, strict=True):
        assert stream.usage == calm.usage
        assert stream.texts == calm.texts, stream.body
