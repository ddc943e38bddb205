"""One real Triton for the unary view: the default model, and an echo engine at 20 ms a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from echo_artifact import make_echo_artifact
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

PROJECT = Path(__file__).parents[3]


def _add_echo(folder: Path) -> Path:
    """The entry ``echo``: 24 requests run, 2 wait; returns the repository."""
    checkpoint = make_tiny_checkpoint(folder / "checkpoint", layers=1)
    artifact = make_echo_artifact(folder / "echo", checkpoint, script={"step_seconds": 0.02})
    add_entry("echo", artifact, folder / "repository", ServingConfig(max_running=24, max_queue_size=2))
    return folder / "repository"


@pytest.fixture
def echo_repository(tmp_path: Path) -> Path:
    return _add_echo(tmp_path)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves ``smollm2`` (built in the checkout's engines folder when it is not there) and ``echo``."""
    folder = tmp_path_factory.mktemp("unary")
    add_entry("smollm2", build(EngineSpec(model="smollm2"), PROJECT / "engines").path, folder / "repository")
    with running_server(_add_echo(folder), run_dir=folder / "run") as running:
        yield running
