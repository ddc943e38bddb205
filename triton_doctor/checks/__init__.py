"""Every check: a function of a machine and a set-up to findings. A new one is a file here and a row in `CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from triton_doctor.checks import artifacts, cpu, files, gpu, memory, network, numa, server, shared_memory, versions
from triton_doctor.finding import Finding, unknown
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["CHECKS", "examine"]

Check = Callable[[Machine, Setup], Iterable[Finding]]

CHECKS: Mapping[str, Check] = {
    "gpu": gpu.check,
    "numa": numa.check,
    "cpu": cpu.check,
    "memory": memory.check,
    "shared memory": shared_memory.check,
    "files": files.check,
    "ports": network.check,
    "versions": versions.check,
    "artifacts": artifacts.check,
    "server": server.check,
}


def examine(machine: Machine, setup: Setup, areas: Iterable[str] = tuple(CHECKS)) -> list[Finding]:
    """The findings of these checks, in order. What may not be looked at is said, and the others go on."""
    found: list[Finding] = []
    for area in areas:
        try:
            found += CHECKS[area](machine, setup)
        except PermissionError as error:
            found.append(
                unknown(area, f"'{error.filename}': no permission to look", "run it as root, or as the server's user")
            )
    return found
