"""Instruction sets, and threads against the cores that can be used."""

from __future__ import annotations

from collections.abc import Iterator

from python_llm.machine import cpu_quota, usable_cpus
from triton_doctor.finding import Finding, advice, ok, unknown, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "cpu"
# What OpenVINO's CPU plugin makes use of, most first.
_FEATURES = {
    "amx_int8": "AMX",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512f": "AVX-512",
    "avx_vnni": "AVX-VNNI",
    "avx2": "AVX2",
}


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    yield _features(machine)
    yield from _threads(machine, setup)


def _features(machine: Machine) -> Finding:
    text = machine.text("/proc/cpuinfo") or ""
    flags = next((set(line.partition(":")[2].split()) for line in text.splitlines() if line.startswith("flags")), None)
    if flags is None:
        return unknown(_AREA, "instruction sets: /proc/cpuinfo names none, as on other than x86 CPUs")
    found = [name for flag, name in _FEATURES.items() if flag in flags]
    if "avx2" not in flags:
        return wrong(
            _AREA,
            "instruction sets: no AVX2; OpenVINO computes several times slower without it",
            "use another machine, or give the virtual one its host's CPU model (QEMU: -cpu host)",
        )
    return ok(_AREA, f"instruction sets: {', '.join(found)}")


def _threads(machine: Machine, setup: Setup) -> Iterator[Finding]:
    usable, quota = usable_cpus(machine.root, len(machine.affinity)), cpu_quota(machine.root)
    limit = f"a limit of {quota:g} cores (control group)" if quota is not None else "no limit by a control group"
    too_many = {name: knobs.threads for name, knobs in setup.serving().items() if knobs.threads > usable}
    for name, threads in too_many.items():
        yield wrong(
            _AREA,
            f"model '{name}': threads {threads}, and {usable} can run at once ({len(machine.affinity)} cores by "
            f"affinity, {limit}): the kernel stops them all together, again and again",
            f"triton-llm repo add {name} --set threads=",
        )
    if not too_many:
        yield ok(_AREA, f"{usable} threads can run at once: {len(machine.affinity)} cores by affinity, {limit}")
    if len(setup.serving()) > 1 and usable < 2 * len(setup.serving()):
        yield advice(
            _AREA,
            f"{len(setup.serving())} models share {usable} cores: their engines wait for each other",
            "serve them from machines of their own where latency matters",
        )
