"""What could keep a scorer's TensorRT plan from running here: version, GPU, memory. A pure function."""

from __future__ import annotations

from collections.abc import Iterator

from python_llm.artifact import Manifest
from triton_launcher.preflight.facts import RuntimeFacts

__all__ = ["PLAN", "plan_problems"]

PLAN = "tensorrt-plan"
_AGAIN = "build it again here with 'make build-engine'"


def plan_problems(manifest: Manifest, facts: RuntimeFacts) -> list[str]:
    """Why the plan cannot run here, each with its remedy; empty where it can. Another kind has none."""
    return list(_problems(manifest, facts)) if manifest.kind == PLAN else []


def _problems(manifest: Manifest, facts: RuntimeFacts) -> Iterator[str]:
    built, found = manifest.builder.get("tensorrt", "unknown"), facts.versions.get("tensorrt")
    if found is None:
        yield "tensorrt: not installed here; start the launcher in the GPU container (docs/scoring.md)."
    elif found != built:
        yield f"tensorrt: the plan was built by {built}, here is {found}; they must be equal: {_AGAIN}."
    if not facts.gpus:
        yield "gpus: zero are visible, one is needed; start the container with --gpus all, and check nvidia-smi."
        return
    gpu, capability = facts.gpus[0], manifest.builder.get("compute_capability")
    if capability and gpu.capability != capability:
        yield (
            f"compute capability: the plan was built for {capability}, here is {gpu.capability} ({gpu.name}); a plan "
            f"runs on the kind of GPU that built it: {_AGAIN}."
        )
    size = sum(record.size for name, record in manifest.files.items() if name.endswith(".plan"))
    if gpu.free < size:
        yield (
            f"gpu 0 ({gpu.name}): {gpu.free / 1e9:.1f} GB free, the plan alone has {size / 1e9:.1f}; end what else "
            "uses it, or build with fewer bits."
        )
