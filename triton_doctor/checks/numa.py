"""Whether the server's cores, its memory and its GPU lie on one NUMA node."""

from __future__ import annotations

from collections.abc import Iterator

from triton_doctor.finding import Finding, advice, ok
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "numa"


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    nodes = {
        folder.name.removeprefix("node"): _cores((folder / "cpulist").read_text())
        for folder in sorted(machine.path("/sys/devices/system/node").glob("node[0-9]*"))
        if (folder / "cpulist").is_file()
    }
    used = [node for node, cores in nodes.items() if cores & machine.affinity]
    if len(used) > 1:
        yield advice(
            _AREA,
            f"the cores that may be used lie on NUMA nodes {', '.join(used)}: memory of the other node is slower, and "
            "latencies swing with where a thread runs",
            f"numactl --cpunodebind={used[0]} --membind={used[0]} triton-llm serve   # one server a node",
        )
    else:
        yield ok(_AREA, f"cores on one NUMA node of {max(len(nodes), 1)}")
    yield from _gpus(machine, used)


def _gpus(machine: Machine, used: list[str]) -> Iterator[Finding]:
    for folder in sorted(machine.path("/sys/bus/pci/devices").glob("*")):
        if _word(machine, folder.name, "vendor") != "0x10de" or not _word(machine, folder.name, "class").startswith(
            "0x03"
        ):
            continue
        node = _word(machine, folder.name, "numa_node")
        if used and node.isdigit() and node not in used:
            yield advice(
                _AREA,
                f"GPU {folder.name} lies on NUMA node {node}, the cores that may be used on {', '.join(used)}",
                f"numactl --cpunodebind={node} --membind={node} triton-llm serve",
            )


def _word(machine: Machine, device: str, name: str) -> str:
    return (machine.text(f"/sys/bus/pci/devices/{device}/{name}") or "").strip()


def _cores(text: str) -> frozenset[int]:
    """ "0-3,8" as numbers."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)
