"""Real Tritons that serve a tiny model in exact arithmetic, a gateway in front: two, or one whose model has tools."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from gateway_under_test import GatewayUnderTest, running_gateway
from server_under_test import ServerUnderTest, running_server
from tests.server.gateway.tool_template import add_tool_template
from tests.soak.served import TINY, tiny_artifact
from tiny_checkpoint import make_tiny_checkpoint

# One server holds all streams of both: none waits, so that each has text when its server goes.
_ROOMY = replace(TINY, kv_cache_bytes=16 << 20)


@dataclass
class Pair:
    servers: tuple[ServerUnderTest, ServerUnderTest]
    gateway: GatewayUnderTest
    folder: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    artifact = tiny_artifact(folder)
    add_entry("tiny", artifact, folder / "repository", _ROOMY)
    quick = ["--breaker-failures", "3", "--breaker-seconds", "1", "--health-seconds", "0.3"]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running_server(folder / "repository", run_dir=folder / f"run{number}"))
            for number in (1, 2)
        )
        gateway = stack.enter_context(running_gateway([first, second], folder / "gateway.log", extra=quick))
        yield Pair((first, second), gateway, folder)


@dataclass
class WithTools:
    """One server whose model ``tiny`` was, by its template, trained to call tools."""

    server: ServerUnderTest
    gateway: GatewayUnderTest

    @property
    def openai_url(self) -> str:
        return f"{self.gateway.url}/v1"


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithTools]:
    folder = tmp_path_factory.mktemp("tools")
    checkpoint = add_tool_template(make_tiny_checkpoint(folder / "checkpoint"))
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="none", check_quality=False)
    add_entry("tiny", build(spec, folder / "engines").path, folder / "repository", TINY)
    with (
        running_server(folder / "repository", run_dir=folder / "run") as server,
        running_gateway([server], folder / "gateway.log", extra=["--health-seconds", "0.3"]) as gateway,
    ):
        yield WithTools(server, gateway)


@pytest.fixture
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may talk to this machine alone; what they would report or download fails."""
    for name in ("LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING"):
        monkeypatch.setenv(name, "false")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # which would keep the client from this machine too
    connect = socket.socket.connect

    def to_this_machine(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost"), address
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", to_this_machine)
