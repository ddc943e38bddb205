"""One real Triton with three engines behind the same tensors, each as ensemble, generator and unary.

``echo`` repeats the prompt, ``paged`` computes a tiny checkpoint; ``tensorrt`` is the TensorRT-LLM engine over the fake
library, which the server finds as it would find the real one: by its name, with a version in its metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from echo_artifact import make_echo_artifact
from fake_tensorrt_llm import machine, make_tensorrt_artifact
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

ENGINES = ("echo", "paged", "tensorrt")
PLACES = 8  # sequences at once
STEP = {"step_seconds": 0.01}  # so that something can happen while a request runs


@pytest.fixture(scope="package")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="package")
def paged_artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = EngineSpec(model=str(checkpoint), name="paged", quant="none", check_quality=False)
    return build(spec, tmp_path_factory.mktemp("engines")).path


@pytest.fixture(scope="package")
def server(
    checkpoint: Path, paged_artifact: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerUnderTest]:
    """All three, with every ability that they have."""
    folder = tmp_path_factory.mktemp("behaviour")
    repository = folder / "repository"
    common = ServingConfig(max_running=PLACES, delivery_share=1.0)
    add_entry("echo", make_echo_artifact(folder / "echo", checkpoint, script=STEP), repository, common)
    exact = ServingConfig(max_running=PLACES, delivery_share=1.0, kv_cache_precision="f32", inference_precision="f32")
    add_entry("paged", paged_artifact, repository, exact)
    artifact = make_tensorrt_artifact(folder / "tensorrt", checkpoint, kind="tensorrt_llm-engine", script=STEP)
    guided = ServingConfig(
        max_running=PLACES, delivery_share=1.0, engine_options={"guided_decoding_backend": "xgrammar"}
    )
    add_entry("tensorrt", artifact, repository, guided)
    with ExitStack() as running:
        with machine(folder / "machine", gpus=1):
            server = running.enter_context(running_server(repository, models=ENGINES, run_dir=folder / "run"))
        yield server
