"""The first run on hardware: the steps of docs/tensorrt_llm.md, in order; `make test-gpu` in the GPU container.

GPU_MODEL           what is built: a checkpoint's folder or a hub id (Qwen/Qwen2.5-0.5B-Instruct)
GPU_FP8_CHECKPOINT  a folder that ModelOpt quantised to FP8; without it that step is skipped
GPU_KIND            the GPU as `triton-llm plan` names it, where its own name does not tell
GPU_NODES           2, in a Slurm allocation of two nodes with two GPUs each

Where there is no GPU, or no TensorRT-LLM, every test is skipped with the reason. Nothing here has ever run on a GPU.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from build_engines.builders._tensorrt_llm.container import api, build_command
from build_engines.builders._tensorrt_llm.machine import installed
from build_engines.spec import EngineSpec
from python_llm.gpus import Gpu, visible_gpus

MODEL = os.environ.get("GPU_MODEL", "Qwen/Qwen2.5-0.5B-Instruct")
LIMITS = {"max_batch_size": 8, "max_input_len": 1024, "max_seq_len": 1024, "max_num_tokens": 2048}

Build = Callable[..., Path]
_BUILD_SECONDS = 7200


def why_not() -> str:
    """What is missing for these tests; empty where nothing is."""
    if not visible_gpus():
        tool = "lists none" if shutil.which("nvidia-smi") else "is not on PATH"
        return (
            f"no GPU is visible (nvidia-smi {tool}): run `make test-gpu` in {api()['container']['image']}, started "
            "with --gpus all on a machine that has one"
        )
    if installed("tensorrt_llm") != api()["version"]:
        return f"TensorRT-LLM {api()['version']} is not installed: run `make test-gpu` in {api()['container']['image']}"
    return ""


@pytest.fixture(scope="session", autouse=True)
def hardware() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def gpus(hardware: None) -> tuple[Gpu, ...]:
    return visible_gpus()


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where what is built lies; it goes with the tests, since engines are large."""
    folder = tmp_path_factory.mktemp("engines")
    yield folder
    shutil.rmtree(folder)


def spec_of(name: str, **knobs: object) -> EngineSpec:
    wanted: dict[str, object] = {"quant": "none", **LIMITS, **knobs}
    return EngineSpec(model=MODEL, name=name, engine="tensorrt_llm", **wanted)  # type: ignore[arg-type]


def build_by_cli(engines: Path, spec: EngineSpec, **variables: str) -> Path:
    """`triton-llm build` as a process of its own: it sees the GPUs that its variables say, and leaves no memory."""
    command = [sys.executable, "-m", "triton_llm.cli", *shlex.split(build_command(spec))[1:]]
    done = subprocess.run(
        [*command, "--engines", str(engines), "--json"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["artifact"])


@pytest.fixture(scope="session")
def built(engines: Path) -> Build:
    """Builds an engine of MODEL; one that is there already is taken."""

    def make(name: str, **knobs: object) -> Path:
        return build_by_cli(engines, spec_of(name, **knobs))

    return make


@pytest.fixture(scope="session")
def plain(built: Build) -> Path:
    """Not quantised, one rank."""
    return built("plain")
