"""A real Triton over the paged engine and a tiny fp32 checkpoint, for the request contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves ``tiny``; NAME-detokenizer in three processes that race for chunks."""
    folder = tmp_path_factory.mktemp("contract")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="none", check_quality=False)
    artifact = build(spec, folder / "engines").path
    serving = ServingConfig(kv_cache_precision="f32", inference_precision="f32", detokenizer_instances=3)
    add_entry("tiny", artifact, folder / "repository", serving)
    with running_server(folder / "repository", run_dir=folder / "run") as running:
        yield running
