"""The container that has the library, and the command that enters it."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from build_engines.builders._tensorrt_llm.machine import installed
from build_engines.errors import MissingRuntime
from build_engines.spec import EngineSpec

__all__ = ["api", "build_command", "docker_command", "require_library"]

_WORK = "/workspace/triton-llm"


@cache
def api() -> Mapping[str, Any]:
    """The facts of the library's interface: names, availability, container."""
    found: Mapping[str, Any] = json.loads(files("build_engines").joinpath("trtllm_api.json").read_text("utf-8"))
    return found


def require_library(spec: EngineSpec) -> None:
    """Refuse a build where the library is not, or is another version.

    Raises:
        MissingRuntime: which container has it, and the command that builds there.
    """
    wanted, found = api()["version"], installed("tensorrt_llm")
    if found == wanted:
        return
    here = f"TensorRT-LLM {found} is installed" if found else "TensorRT-LLM is not installed"
    raise MissingRuntime(
        f"engine 'tensorrt_llm': {here} here; engines are built by {wanted}, the last line that has them, in the "
        f"container {api()['container']['image']}; enter it and build with:\n  {docker_command(spec)}\n"
        "or see the whole plan here with --dry-run (DRY_RUN=1)."
    )


def docker_command(spec: EngineSpec) -> str:
    """One line to run in the project's folder; a local model is mounted where it lies."""
    mounts = ["-v", f'"$PWD":{_WORK}', *_mounts(spec)]
    inside = f"pip install --no-deps -e . && {build_command(spec)}"
    parts = ["docker run --rm -it --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864", *mounts]
    return " ".join([*parts, f"-w {_WORK}", api()["container"]["image"], f"bash -c {shlex.quote(inside)}"])


def _mounts(spec: EngineSpec) -> Iterator[str]:
    """Absolute paths outside the project, read-only; the hub's cache for a hub id."""
    for place in (spec.model, spec.calib):
        if place and Path(_reachable(place)).is_absolute():
            path = shlex.quote(_reachable(place))
            yield f"-v {path}:{path}:ro"
    if not Path(spec.model).exists():
        yield '-v "${HF_HOME:-$HOME/.cache/huggingface}":/root/.cache/huggingface -e HF_TOKEN'


def _reachable(place: str) -> str:
    """A path inside the project as it is; one outside in full, as it is mounted; a hub id as it is."""
    path = Path(place).expanduser()
    inside = path.resolve().is_relative_to(Path.cwd())
    return place if inside or not path.exists() else str(path.resolve())


def build_command(spec: EngineSpec) -> str:
    """The ``triton-llm build`` of this spec: every knob that is not at its default."""
    words = ["triton-llm", "build", shlex.quote(_reachable(spec.model))]
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name in ("model", "bounds") or value == field.default:
            continue
        flag = _FLAGS.get(field.name, f"--{field.name.replace('_', '-')}")
        value = _reachable(value) if field.name == "calib" else value
        words += [flag] if isinstance(value, bool) else _values(flag, value)
    return " ".join(words)


_FLAGS = {"check_quality": "--no-quality-check", "plugins": "--plugin", "lora_modules": "--lora-module"}


def _values(flag: str, value: object) -> list[str]:
    many = value if isinstance(value, tuple) else (value,)
    return [word for each in many for word in (flag, shlex.quote(str(each)))]
