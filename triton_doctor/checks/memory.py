"""Weights, KV caches and batches against memory; and whether the kernel killed somebody for it."""

from __future__ import annotations

from collections.abc import Iterator

from build_engines.version_gate import room_bytes
from python_llm.artifact import Artifact
from python_llm.errors import CallerMistake
from python_llm.machine import read_memory
from triton_doctor.finding import Finding, advice, ok, unknown, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "memory"
_ON_GPUS = ("tensorrt_llm-engine", "tensorrt_llm-checkpoint", "tensorrt-plan")
_STEP = 3 << 20  # of activations for each token of a step, at most: a wide model's largest layer in fp32
GB = 1e9


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    yield from _fits(machine, setup)
    yield from _kills(machine)


def _fits(machine: Machine, setup: Setup) -> Iterator[Finding]:
    memory = read_memory(machine.root)
    if not memory.limit:
        yield unknown(_AREA, "memory: /proc/meminfo does not say how much there is")
        return
    needs = dict(_needs(setup))
    total = sum(needs.values())
    held = ", ".join(f"{name} {size / GB:.1f}" for name, size in needs.items()) or "nothing is served"
    text = f"{total / GB:.1f} GB may be taken ({held}) of the {memory.of}'s {memory.limit / GB:.1f}"
    if total > memory.limit:
        name, size = max(needs.items(), key=lambda item: item[1])
        spare = memory.limit - (total - setup.serving()[name].kv_cache_bytes)
        remedy = (
            f"triton-llm repo add {name} --set kv_cache_bytes={spare // 2}"
            if spare > 0
            else f"serve fewer models here, or give it more memory: {name} alone takes {size / GB:.1f} GB"
        )
        yield wrong(_AREA, f"{text}: the kernel will kill the server once the cache fills", remedy)
    elif total > 0.9 * memory.limit:
        yield advice(_AREA, f"{text}: little is left for batches and other processes", "lower kv_cache_bytes")
    else:
        yield ok(_AREA, text)


def _needs(setup: Setup) -> Iterator[tuple[str, int]]:
    """Host memory of each served model: weights, caches, processes, the activations of its largest step."""
    for entry in setup.entries():
        knobs = setup.serving().get(entry.name)
        if knobs is None:
            continue
        try:
            artifact = Artifact.open(entry.artifact)
        except CallerMistake:
            continue  # a check of its own
        if artifact.kind not in _ON_GPUS:
            yield entry.name, room_bytes(artifact, knobs) + knobs.max_num_tokens * _STEP


def _kills(machine: Machine) -> Iterator[Finding]:
    """What the control group counted; the kernel's log has the names, for root."""
    text = machine.text("/sys/fs/cgroup/memory.events") or ""
    kills = sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))
    if kills:
        yield advice(
            _AREA,
            f"the kernel killed {kills} processes of this container for want of memory since it began",
            "dmesg | grep -i 'killed process'   # as root: which ones, and when",
        )
