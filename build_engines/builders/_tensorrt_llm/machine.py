"""What is here: GPUs as nvidia-smi names them, and the library's version as its distribution says it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

__all__ = ["VisibleGpu", "installed", "visible_gpus"]

_QUERY = ("--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class VisibleGpu:
    name: str
    capability: str
    memory: int  # bytes


def visible_gpus() -> tuple[VisibleGpu, ...]:
    """The GPUs of this machine; none where there is no driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    done = subprocess.run([tool, *_QUERY], capture_output=True, text=True, check=False)
    rows = (
        [line.split(", ") for line in done.stdout.splitlines() if line.count(", ") == 2] if not done.returncode else []
    )
    return tuple(VisibleGpu(name, capability, int(memory) << 20) for name, capability, memory in rows)


def installed(package: str) -> str:
    """The version of a distribution; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
