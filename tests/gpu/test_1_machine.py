"""Steps 1 to 3: the driver, the library, and whether its names are those of the facts."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import python_llm
from build_engines.builders._tensorrt_llm.container import api
from build_engines.builders._tensorrt_llm.machine import installed
from build_engines.builders.tensorrt_llm import _examples
from python_llm.engines.tensorrt.api import fields_of as fields_known
from python_llm.engines.tensorrt.api import old_names
from python_llm.engines.tensorrt.library import ARGUMENTS, BACKENDS, Library
from python_llm.gpus import Gpu

BUILD: dict[str, Any] = api()["symbols"]
RUNTIME: dict[str, Any] = json.loads(
    (Path(python_llm.__file__).parent / "engines" / "tensorrt" / "api.json").read_text("utf-8")
)
CLASSES = {full.rpartition(".")[2] for full in RUNTIME["classes"]}
_USED = ("Config", "Params", "LoRARequest", *ARGUMENTS.values())
REACHED = sorted(name for name in CLASSES if name.endswith(_USED) and "Base" not in name)
MADE = ("BuildConfig", "QuantConfig", "CalibConfig", "LoraConfig", "PluginConfig")


def test_step_1_the_driver_answers(gpus: tuple[Gpu, ...]) -> None:
    for gpu in gpus:
        print(gpu)
        assert gpu.name
        assert gpu.version >= (7, 0)
        assert 0 < gpu.free <= gpu.total


def test_step_2_the_library_is_the_pinned_one() -> None:
    library = import_module("tensorrt_llm")
    assert library.__version__ == api()["version"]
    assert installed("tensorrt")
    print(f"TensorRT {installed('tensorrt')}, ModelOpt {installed('nvidia-modelopt')}")
    assert (Path(_examples()) / "quantization" / "quantize.py").is_file()


def fields_of(kind: Any) -> set[str]:
    if hasattr(kind, "model_fields"):
        return set(kind.model_fields)
    return {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("symbol", [name for name in BUILD if name.rpartition(".")[2] in MADE])
def test_step_3_what_a_build_says_is_known(symbol: str) -> None:
    module, _, name = symbol.rpartition(".")
    missing = {field for field, where in BUILD[symbol]["names"].items() if where == "both"}
    missing -= fields_of(getattr(import_module(module), name))
    assert not missing


@pytest.mark.parametrize("kind", BACKENDS)
def test_step_3_what_a_server_says_is_known(kind: str) -> None:
    """Of each class that a knob can reach, what both copies of the facts have."""
    library = Library(BACKENDS[kind])
    missing = {
        f"{name}.{field}"
        for name in REACHED
        for field, row in fields_known(name).items()
        if row.get("only") != "new" and field not in old_names(name) and not library.has_field(name, field)
    }
    assert not missing
    takes = set(inspect.signature(library.llm.generate_async).parameters)
    assert {"inputs", "sampling_params", "lora_request", "streaming"} <= takes
    print(f"priority: {library.takes_priority}, cache_salt: {library.takes_cache_salt}, words: {library.bans_words}")


@pytest.mark.parametrize("program", ["trtllm-build", "quantization/quantize.py"])
def test_step_3_the_commands_have_every_flag(program: str) -> None:
    place = shutil.which(program)
    command = [place] if place else ["python3", os.path.join(_examples(), program)]
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=600, check=True).stdout
    flags = {flag for flag, where in BUILD[program]["names"].items() if where == "both"}
    assert not {flag for flag in flags if f"--{flag}" not in told}
