"""Processes and shared memory of one launcher run, found by a marker: in the environment and in the region names.

The marker survives what process ids and process groups do not: a parent that died, a stub that was orphaned, a
worker that opened a session of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MARKER_VARIABLE",
    "Stub",
    "command_line",
    "is_alive",
    "kill",
    "marked",
    "read_stub",
    "shared_memory",
    "stubs",
    "sweep",
]

MARKER_VARIABLE = "TRITON_LLM_RUN"
_SHARED_MEMORY = Path("/dev/shm")
_STUB = "triton_python_backend_stub"
_DIE_SECONDS = 5.0  # how long a killed process may take to vanish; a deadline against hangs only


def marked(marker: str, root: Path = Path("/proc")) -> tuple[int, ...]:
    """Process ids (not this one) whose environment carries the marker; zombies have no environment."""
    needle = f"{MARKER_VARIABLE}={marker}".encode()
    pids = (int(entry.name) for entry in root.iterdir() if entry.name.isdigit())
    return tuple(pid for pid in pids if pid != os.getpid() and needle in _read(root / f"{pid}/environ").split(b"\0"))


@dataclass(frozen=True)
class Stub:
    """What a backend process runs: an instance of a model."""

    model: str
    instance: str
    version: str = ""


def stubs(marker: str) -> Mapping[int, Stub]:
    """Live backend stubs, by process id."""
    return {pid: stub for pid in marked(marker) if (stub := read_stub(command_line(pid))) is not None}


def read_stub(arguments: Sequence[str]) -> Stub | None:
    """Read a stub's command line: stub, MODEL/VERSION/model.py, region, two sizes, parent, folder, handle, instance.

    None for another process, and for the short-lived stub that completes a model's config: its instance is the
    model itself.
    """
    if len(arguments) < 9 or Path(arguments[0]).name != _STUB:
        return None
    entry = Path(arguments[1])
    stub = Stub(entry.parents[1].name, arguments[8], entry.parent.name)
    return stub if stub.instance != stub.model else None


def command_line(pid: int) -> list[str]:
    """The process's arguments; empty when it is gone."""
    return _read(Path(f"/proc/{pid}/cmdline")).decode("utf-8", "replace").split("\0")[:-1]


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    status = _read(Path(f"/proc/{pid}/stat"))
    return bool(status) and status.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def shared_memory(marker: str, folder: Path = _SHARED_MEMORY) -> tuple[Path, ...]:
    """Shared memory regions whose name begins with the marker."""
    return tuple(sorted(folder.glob(f"{marker}*"))) if folder.is_dir() else ()


def kill(pid: int) -> None:
    """SIGKILL; a process that is gone already is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def sweep(marker: str, folder: Path = _SHARED_MEMORY) -> None:
    """Kill every process of the marker and remove its shared memory; a killed one may fork no faster than we look."""
    deadline = time.monotonic() + _DIE_SECONDS
    while (left := marked(marker)) and time.monotonic() < deadline:
        for pid in left:
            kill(pid)
        time.sleep(0.02)
    for region in shared_memory(marker, folder):
        with suppress(OSError):
            region.unlink()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # gone, or another user's
