"""/dev/shm, over which Triton and its backend processes talk."""

from __future__ import annotations

from collections.abc import Iterator

from triton_doctor.finding import Finding, advice, ok, unknown, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup
from triton_launcher.run_folder import read_state

__all__ = ["check"]

_AREA = "shared memory"
_FOLDER = "/dev/shm"
_PROCESS = 16 << 20  # of a backend process: it begins with 1 MiB and grows with what a response holds
_LEAST = 64 << 20
_PREFIX = "triton_llm_"
MB = 1e6


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    try:
        free, total = machine.room(machine.path(_FOLDER))
    except OSError as error:
        yield unknown(_AREA, f"{_FOLDER}: {error.strerror or error}", f"mount -t tmpfs tmpfs {_FOLDER}")
        return
    wanted = max(_LEAST, 5 * _PROCESS * len(setup.entries()))
    if free < wanted and not setup.running(machine):
        yield wrong(
            _AREA,
            f"{_FOLDER}: {free / MB:,.0f} of {total / MB:,.0f} MB are free, the backend processes need "
            f"{wanted / MB:,.0f}: a model will not load, or dies of a long answer",
            f"ls -lS {_FOLDER} | head   # remove what is stale; or docker run --shm-size 1g, mount -o remount,size=1g",
        )
    else:
        yield ok(_AREA, f"{_FOLDER}: {free / MB:,.0f} of {total / MB:,.0f} MB are free")
    yield from _left_over(machine, setup)


def _left_over(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """Regions of the run folder's launcher, where that is dead."""
    if setup.running(machine):
        return
    try:
        marker = read_state(setup.run_dir).marker
    except (OSError, ValueError):
        return
    stale = sorted(machine.path(_FOLDER).glob(f"{marker}*")) if marker.startswith(_PREFIX) else []
    if stale:
        held = sum(region.stat().st_size for region in stale) / MB
        yield advice(
            _AREA,
            f"{len(stale)} regions of {held:,.0f} MB are left of a launcher that was killed",
            f"triton-llm serve --run-dir {setup.run_dir}   # its start sweeps them",
        )
