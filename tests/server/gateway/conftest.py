"""Two real Tritons that serve the same tiny model in exact arithmetic, and a gateway in front of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from gateway_under_test import GatewayUnderTest, running_gateway
from server_under_test import ServerUnderTest, running_server
from tests.soak.served import TINY, tiny_artifact


@dataclass
class Pair:
    servers: tuple[ServerUnderTest, ServerUnderTest]
    gateway: GatewayUnderTest
    folder: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    artifact = tiny_artifact(folder)
    add_entry("tiny", artifact, folder / "repository", TINY)
    quick = ["--breaker-failures", "3", "--breaker-seconds", "1", "--health-seconds", "0.3"]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running_server(folder / "repository", run_dir=folder / f"run{number}"))
            for number in (1, 2)
        )
        gateway = stack.enter_context(running_gateway([first, second], folder / "gateway.log", extra=quick))
        yield Pair((first, second), gateway, folder)
