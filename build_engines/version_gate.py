"""What a version must pass before it may answer: its artifact is sound and good, and there is room for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from build_engines.errors import MemoryShortage, QualityLoss
from python_llm.artifact import Artifact
from python_llm.machine import free_bytes
from python_llm.settings import ServingConfig

__all__ = ["check_room", "check_sound", "room_bytes"]

_PROCESSES = 400 << 20  # beside weights and cache; tritonserver and the stubs of a tiny model held 338 to 383 MB
_ON_GPUS = ("tensorrt_llm-engine", "tensorrt_llm-checkpoint", "tensorrt-plan")


def check_sound(name: str, version: int, folder: Path) -> Artifact:
    """The version's artifact, opened.

    Raises:
        ArtifactError: it is missing, was edited, or was built by another version of its runtime.
        QualityLoss: it lost more against its source than its build's bounds allow.
    """
    artifact = Artifact.open(folder)
    artifact.check_runtime()
    missed = (artifact.manifest.quality or {}).get("missed") or ()
    if missed:
        raise QualityLoss(
            f"model '{name}' version {version}: its artifact '{folder}' fails its quality gate ({'; '.join(missed)}); "
            "build a better one."
        )
    return artifact


def room_bytes(artifact: Artifact, serving: ServingConfig) -> int:
    """Memory that a version takes beside what runs: weights, KV cache, host memory for blocks, its processes.

    With ``kv_cache_bytes`` 0 the cache takes a share of what is left, whatever that is.
    """
    weights = sum(record.size for record in artifact.manifest.files.values())
    return weights + serving.kv_cache_bytes + serving.kv_host_bytes + _PROCESSES


def check_room(
    name: str, version: int, artifact: Artifact, serving: ServingConfig, free: Callable[[], int] = free_bytes
) -> None:
    """Raises MemoryShortage: while both versions are live, this one has no room beside the other."""
    if artifact.kind in _ON_GPUS:
        raise MemoryShortage(
            f"model '{name}' version {version}: an engine for GPUs takes what is free of their memory, so two versions "
            "are not planned for; promote it without --url, and restart the server, or serve it from another."
        )
    wanted, left = room_bytes(artifact, serving), free()
    if wanted > left:
        raise MemoryShortage(
            f"model '{name}' version {version}: it takes {wanted / 1e6:,.0f} MB beside the version that runs, and "
            f"{left / 1e6:,.0f} MB are free; give it a smaller cache (repo add --version {version} --set "
            "kv_cache_bytes=BYTES), or promote it without --url and restart the server."
        )
