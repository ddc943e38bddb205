"""A plan's build, said and not done: checks, shapes, steps; runs everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from build_engines.builders._tensorrt.plan import QUANTISED
from build_engines.builders._tensorrt.shapes import Shapes
from build_engines.builders._tensorrt_llm.checks import FAILED, OK, UNKNOWN, Check
from build_engines.builders._tensorrt_llm.container import api, build_command
from build_engines.plan.devices import find_gpu
from build_engines.spec import EngineSpec
from python_llm.gpus import Gpu

__all__ = ["DryRun", "dry_run", "enter_container"]

_TOOLS = "onnx onnxscript onnxruntime onnx-graphsurgeon polygraphy"
_LEAST_FP8 = (8, 9)  # compute capability, NVIDIA's CUDA programming guide
NOT_VERIFIED = "no plan was ever built: the graph, its folding and the profile are tested on a CPU, the rest is not"


@dataclass(frozen=True)
class DryRun:
    spec: EngineSpec
    artifact: Path
    shapes: Shapes
    checks: tuple[Check, ...]

    @property
    def sound(self) -> bool:
        return all(check.state != FAILED for check in self.checks)

    def to_record(self) -> dict[str, Any]:
        return {
            "artifact": str(self.artifact),
            "kind": "tensorrt-plan",
            "source": self.spec.model,
            "quant": self.spec.quant,
            "profile": asdict(self.shapes),
            "checks": [asdict(check) for check in self.checks],
            "sound": self.sound,
            "steps": list(_steps(self.spec)),
            "enter": enter_container(self.spec),
            "not_verified": [NOT_VERIFIED],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"would build {self.artifact} (tensorrt-plan) of {self.spec.model}, quant {self.spec.quant}"
        shapes = self.shapes
        yield f"profile: rows x tokens {shapes.least} to {shapes.largest}, tuned for {shapes.usual}"
        yield "checks:"
        yield from (f"  [{check.state}] {check.subject}: {check.text}" for check in self.checks)
        yield "steps:"
        yield from (f"  {step}" for step in _steps(self.spec))
        yield f"container: {enter_container(self.spec)}"
        yield f"not verified: {NOT_VERIFIED}"


def dry_run(spec: EngineSpec, engines: Path, shapes: Shapes, gpus: Sequence[Gpu]) -> DryRun:
    return DryRun(spec, engines / spec.name, shapes, tuple(_checks(spec, gpus)))


def enter_container(spec: EngineSpec) -> str:
    """One line that builds in the container, run in the project's folder."""
    inside = f"pip install --no-deps -e . && pip install {_TOOLS} && {build_command(spec)}"
    mount = '-v "$PWD":/workspace/triton-llm -w /workspace/triton-llm'
    image = api()["container"]["image"]
    return f"docker run --rm -it --gpus all --ipc=host {mount} {image} bash -c {shlex.quote(inside)}"


def _steps(spec: EngineSpec) -> Iterator[str]:
    yield f"export to ONNX in {'fp16' if spec.quant == 'fp16' else 'fp32'}; onnx.checker, shape inference"
    if spec.quant in QUANTISED:
        yield f"ModelOpt: quantise and dequantise nodes for {spec.quant}, scales from the shipped text"
    yield "Polygraphy: fold constants, sanitise"
    yield "Polygraphy: network, config with the profile and the timing cache, plan"
    yield "Polygraphy: compare the plan with ONNX Runtime on random and real batches"


def _checks(spec: EngineSpec, gpus: Sequence[Gpu]) -> Iterator[Check]:
    capability = gpus[0].version if gpus else _named_capability(spec.gpu)
    if capability is None:
        yield Check("gpu", UNKNOWN, "zero GPUs are visible and none is named; name the kind with --gpu (GPU=H100)")
    else:
        yield Check("gpu", OK, f"compute capability {'.'.join(map(str, capability))}")
    if spec.quant == "fp8" and capability is None:
        yield Check("format", UNKNOWN, "fp8 needs compute capability 8.9")
    elif spec.quant == "fp8" and capability is not None and capability < _LEAST_FP8:
        yield Check("format", FAILED, "fp8 needs compute capability 8.9; choose fp16 or int8, or another GPU")
    else:
        yield Check("format", OK, spec.quant)


def _named_capability(name: str) -> tuple[int, int] | None:
    return find_gpu(name).version if name else None
