"""One real Triton for the scorer: a tiny checkpoint through ONNX in fp32, and the same one as a generator beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.repository import add_entry, add_scorer
from build_engines.spec import EngineSpec
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

WAITS = ServingConfig(scorer_delay_ms=1000.0)
CACHED = ServingConfig(scorer_cache_bytes=64 << 20)
EXACT = ServingConfig(kv_cache_precision="f32", inference_precision="f32", kv_cache_bytes=64 << 20, threads=1)


@pytest.fixture(scope="package")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", context=512)


@pytest.fixture(scope="package")
def artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scorer's; its drift report holds the bound of its logits."""
    spec = EngineSpec(model=str(checkpoint), name="scorer", role="scorer", quant="none")
    return build(spec, tmp_path_factory.mktemp("engines")).path


@pytest.fixture(scope="package")
def server(checkpoint: Path, artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves the scorer as ``llama-7b``, as ``waits`` (a second for others to come), as ``cached``; and ``tiny``."""
    folder = tmp_path_factory.mktemp("scorer")
    repository = folder / "repository"
    add_scorer("llama-7b", artifact, repository)
    add_scorer("waits", artifact, repository, WAITS)
    add_scorer("cached", artifact, repository, CACHED)
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="none", check_quality=False)
    add_entry("tiny", build(spec, folder / "engines").path, repository, EXACT)
    models = ["llama-7b", "waits", "cached", "tiny-generator"]
    with running_server(repository, models=models, run_dir=folder / "run") as running:
        yield running
