"""The GPUs that a process started here would see, by the driver's own word; no engine library is imported."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

__all__ = ["Gpu", "visible_gpus"]

_QUERY = ("--query-gpu=name,compute_cap,memory.total,memory.free", "--format=csv,noheader,nounits")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SECONDS = 60


@dataclass(frozen=True)
class Gpu:
    name: str
    capability: str  # compute capability, "9.0"
    total: int  # bytes
    free: int

    @property
    def version(self) -> tuple[int, int]:
        major, _, minor = self.capability.partition(".")
        return int(major), int(minor or 0)


def visible_gpus() -> tuple[Gpu, ...]:
    """None where there is no driver, it does not answer, or CUDA_VISIBLE_DEVICES hides them."""
    found = _gpus()
    chosen = os.environ.get(_VISIBLE)
    if chosen is None:
        return found
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    if all(name.isdigit() for name in names):
        return tuple(found[int(name)] for name in names if int(name) < len(found))
    return found[: len([name for name in names if not name.startswith("-")])]  # by UUID: as many as are named


def _gpus() -> tuple[Gpu, ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run([tool, *_QUERY], capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    return tuple(Gpu(row[0], row[1], int(row[2]) << 20, int(row[3]) << 20) for row in rows if _is_whole(row))


def _is_whole(row: list[str]) -> bool:
    """A GPU that shares memory with its host may say `[N/A]`."""
    return len(row) == 4 and row[2].isdigit() and row[3].isdigit()
