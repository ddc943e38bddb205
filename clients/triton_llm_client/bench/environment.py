"""The machine and the versions that figures belong to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["environment"]

_PACKAGES = (
    "triton-llm",
    "openvino",
    "openvino-genai",
    "xllamacpp",
    "transformers",
    "torch",
    "nvidia-pytriton",
    "tritonclient",
    "grpcio",
    "numpy",
)


def environment() -> dict[str, Any]:
    """What is told beside every figure; ``busy`` is the load average of the last minute over the cores."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "busy": round(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 2),
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
