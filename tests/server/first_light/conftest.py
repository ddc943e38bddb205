"""A real Triton over the paged engine: one serving a tiny fp32 checkpoint, one serving the default model.

Beside the tiny checkpoint stand two models of the echo engine, so that the tokens of their answers are known: ``bytes``
with its byte-level BPE tokenizer, ``pieces`` with one of SentencePiece's kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from echo_artifact import make_echo_artifact
from python_llm.settings import ServingConfig
from sentencepiece_tokenizer import make_sentencepiece_checkpoint
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

PROJECT = Path(__file__).parents[3]
# Every token in a response of its own, and three detokenizers that race for them.
ECHO = ServingConfig(detokenizer_instances=3, delivery_share=1.0)


@pytest.fixture(scope="package")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the name of the echo model that has its tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {
        "bytes": make_tiny_checkpoint(folder / "bytes"),
        "pieces": make_sentencepiece_checkpoint(folder / "pieces"),
    }


@pytest.fixture(scope="package")
def tiny_server(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves ``tiny`` with f32 cache and arithmetic; 24 run at once; three detokenizers race for its chunks."""
    folder = tmp_path_factory.mktemp("tiny")
    spec = EngineSpec(model=str(checkpoints["bytes"]), name="tiny", quant="none", check_quality=False)
    artifact = build(spec, folder / "engines").path
    serving = ServingConfig(
        max_running=24,
        kv_cache_precision="f32",
        inference_precision="f32",
        tokenizer_instances=2,
        detokenizer_instances=3,
    )
    add_entry("tiny", artifact, folder / "repository", serving)
    for name, checkpoint in checkpoints.items():
        add_entry(name, make_echo_artifact(folder / "engines" / name, checkpoint), folder / "repository", ECHO)
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
