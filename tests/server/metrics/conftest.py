"""A real Triton with two models: ``tiny`` on the paged engine, ``slow`` on the echo engine at 20 tokens a second."""

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

OFTEN = 0.1  # seconds between two updates
TINY = ServingConfig(
    max_running=8,
    kv_cache_bytes=1 << 26,
    kv_cache_precision="f32",
    inference_precision="f32",
    threads=1,
    metrics_seconds=OFTEN,
)


@pytest.fixture(scope="package")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metrics")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="none", check_quality=False)
    add_entry("tiny", build(spec, folder / "engines").path, folder / "repository", TINY)
    slow = make_echo_artifact(folder / "engines" / "slow", checkpoint, script={"step_seconds": 0.05})
    add_entry("slow", slow, folder / "repository", ServingConfig(metrics_seconds=OFTEN))
    return folder / "repository"


@pytest.fixture(scope="package")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    with running_server(repository, run_dir=tmp_path_factory.mktemp("run")) as running:
        yield running
