"""Whether the idle are idle: an engine that spins while another is measured spoils the figures."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["idle_cpu"]

_TICKS = os.sysconf("SC_CLK_TCK")


def idle_cpu(seconds: float = 1.0) -> float:
    """CPU seconds per second that this process and all its descendants use, servers included, while none is asked."""
    before = _family_seconds()
    started = time.perf_counter()
    time.sleep(seconds)
    return (_family_seconds() - before) / (time.perf_counter() - started)


def _family_seconds() -> float:
    """Of the processes alive now; where there is no /proc, of this one alone."""
    table = dict(filter(None, map(_process, Path("/proc").glob("[0-9]*"))))
    if not table:
        return time.process_time()
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in table.items() if parent in family} - family:
        family |= more
    return sum(table[pid][1] for pid in family if pid in table)


def _process(folder: Path) -> tuple[int, tuple[int, float]] | None:
    try:
        fields = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return None
    return int(folder.name), (int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
