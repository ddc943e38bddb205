"""A real Triton over the paged engine: one serving a tiny fp32 checkpoint, one serving the default model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="package")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves ``tiny`` with f32 cache and arithmetic; 24 run at once; three detokenizers race for its chunks."""
    folder = tmp_path_factory.mktemp("tiny")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="none", check_quality=False)
    artifact = build(spec, folder / "engines").path
    serving = ServingConfig(
        max_running=24,
        kv_cache_precision="f32",
        inference_precision="f32",
        tokenizer_instances=2,
        detokenizer_instances=3,
    )
    add_entry("tiny", artifact, folder / "repository", serving)
    with running_server(folder / "repository", run_dir=folder / "run") as server:
        yield server


@pytest.fixture(scope="package")
def default_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves ``smollm2``, INT8, out of the checkout's own engines folder (built when it is not there)."""
    folder = tmp_path_factory.mktemp("default")
    artifact = build(EngineSpec(model="smollm2"), PROJECT / "engines").path
    add_entry("smollm2", artifact, folder / "repository")
    with running_server(folder / "repository", run_dir=folder / "run") as server:
        yield server
