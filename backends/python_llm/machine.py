"""What this process may use of the machine: cores and memory, as affinity, the container's limits and the kernel say.

Pure functions over files: ``root`` stands for ``/``. Control groups of both versions are read, the process's own and
every one above it; the tightest limit holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Memory", "cpu_quota", "free_bytes", "read_memory", "resident_bytes", "usable_cpus"]

_ROOT = Path("/")
_UNLIMITED = 1 << 60  # version 1 writes "no limit" as a number beyond any memory


@dataclass(frozen=True)
class Memory:
    """Bytes. ``used`` cannot be given back by dropping files that are merely cached; 0 of 0: the kernel did not say."""

    used: int
    limit: int
    of: str  # whose limit: "container" or "machine"

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0


def usable_cpus(root: Path = _ROOT, affinity: int | None = None) -> int:
    """Threads that can run at once: the affinity's cores, and no more than the container's quota pays for.

    A quota of 2.5 cores is two threads: a third one would have all of them throttled.
    """
    cores = len(os.sched_getaffinity(0)) if affinity is None else affinity
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """Cores' worth of time the control groups grant; None: no limit."""
    found = [quota for group in _groups(root, "cpu") if (quota := _quota(group)) is not None]
    return min(found, default=None)


def read_memory(root: Path = _ROOT) -> Memory:
    """The tighter of the container's memory and the machine's."""
    return max(_memories(root), key=lambda memory: memory.share)


def free_bytes(root: Path = _ROOT) -> int:
    """Bytes that this process may still take: what every control group and the machine have left."""
    return max(0, min(memory.limit - memory.used for memory in _memories(root)))


def resident_bytes(root: Path = _ROOT, process: int | str = "self") -> int:
    """Bytes of memory that a process holds; 0 when it is gone."""
    fields = _text(root / f"proc/{process}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the process's control groups that have this controller, the innermost first."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            mount = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controller
        else:
            continue
        folder = mount / path.strip("/")
        yield folder
        while folder != mount:
            folder = folder.parent
            yield folder


def _quota(group: Path) -> float | None:
    words = _text(group / "cpu.max").split()  # version 2: "250000 100000", or "max 100000"
    if not words:
        words = [_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = _number(words[0]), _number(words[-1])
    return quota / period if quota > 0 and period > 0 else None


def _group_memory(group: Path) -> Memory | None:
    for limit_file, used_file, cached_key in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _number(_text(group / limit_file))
        if 0 < limit < _UNLIMITED:
            cached = _keyed(group / "memory.stat").get(cached_key, 0)
            return Memory(max(0, _number(_text(group / used_file)) - cached), limit, "container")
    return None


def _memories(root: Path) -> list[Memory]:
    """The containers' memory, the innermost first, and the machine's."""
    groups = [memory for group in _groups(root, "memory") if (memory := _group_memory(group)) is not None]
    return [*groups, _machine_memory(root)]


def _machine_memory(root: Path) -> Memory:
    facts = _keyed(root / "proc/meminfo")
    total = facts.get("MemTotal:", 0) << 10
    return Memory(total - (facts.get("MemAvailable:", 0) << 10), total, "machine")


def _keyed(file: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(file).splitlines())
    return {row[0]: _number(row[1]) for row in rows if len(row) > 1}


def _number(text: str) -> int:
    """0 for what is none: "max", or nothing."""
    text = text.strip()
    return int(text) if text.lstrip("-").isdigit() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
