"""What processes use, read from /proc; and whether the idle are idle: an engine that spins while another is measured
spoils the figures."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Used", "family_used", "idle_cpu"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Used:
    """CPU seconds so far and bytes resident now."""

    cpu_seconds: float
    resident_bytes: int = 0


def idle_cpu(seconds: float = 1.0) -> float:
    """CPU seconds per second that this process and all its descendants use, servers included, while none is asked."""
    before = family_used().cpu_seconds
    started = time.perf_counter()
    time.sleep(seconds)
    return (family_used().cpu_seconds - before) / (time.perf_counter() - started)


def family_used(*, descendants_alone: bool = False) -> Used:
    """Of this process and its descendants alive now; where there is no /proc, the CPU of this one."""
    table = dict(filter(None, map(_process, Path("/proc").glob("[0-9]*"))))
    if not table:
        return Used(0.0 if descendants_alone else time.process_time())
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in table.items() if parent in family} - family:
        family |= more
    if descendants_alone:
        family.discard(os.getpid())
    found = [table[pid][1] for pid in family if pid in table]
    return Used(sum(one.cpu_seconds for one in found), sum(one.resident_bytes for one in found))


def _process(folder: Path) -> tuple[int, tuple[int, Used]] | None:
    try:
        fields = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return None
    used = Used((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE)
    return int(folder.name), (int(fields[1]), used)
