"""One real Triton with an echo engine at 20 ms a token, for all the client's server tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

STEP_SECONDS = 0.02


@pytest.fixture(scope="package")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    return make_echo_artifact(folder / "echo", checkpoint, script={"step_seconds": STEP_SECONDS})


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, artifact: Path) -> Iterator[ServerUnderTest]:
    """Serves ``smollm2-generator``: two requests run, two wait, more are refused with queue_full."""
    folder = tmp_path_factory.mktemp("client")
    add_entry("smollm2", artifact, folder / "repository", ServingConfig(max_running=2, max_queue_size=2))
    with running_server(folder / "repository", run_dir=folder / "run") as running:
        yield running


@pytest.fixture(params=["grpc", "http"])
def url(request: pytest.FixtureRequest, server: ServerUnderTest) -> str:
    return server.grpc_url if request.param == "grpc" else server.http_url
