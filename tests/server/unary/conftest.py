"""One real Triton with an echo engine at 20 ms a token, whose unary view is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint


@pytest.fixture(scope="package")
def echo_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model repository whose one entry ``echo`` lets 24 requests run and 2 wait."""
    folder = tmp_path_factory.mktemp("unary")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint", layers=1)
    artifact = make_echo_artifact(folder / "engines/echo", checkpoint, script={"step_seconds": 0.02})
    add_entry("echo", artifact, folder / "repository", ServingConfig(max_running=24, max_queue_size=2))
    return folder / "repository"


@pytest.fixture(scope="package")
def echo_server(echo_repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    with running_server(echo_repository, run_dir=tmp_path_factory.mktemp("run")) as server:
        yield server
