"""The ports of the server: free, or its own."""

from __future__ import annotations

from collections.abc import Iterator

from triton_doctor.finding import Finding, ok, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "ports"


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    ports = {**vars(setup.ports), **({"gateway": setup.gateway} if setup.gateway else {})}
    if setup.running(machine):
        yield ok(_AREA, f"{', '.join(map(str, ports.values()))}: a launcher on '{setup.run_dir}' has them")
        return
    taken = {name: why for name, port in ports.items() if (why := machine.bind(setup.host, port))}
    for name, why in taken.items():
        port = ports[name]
        yield wrong(
            _AREA,
            f"{name} port {port} on {setup.host}: {why}; the server will not start",
            f"ss -ltnp 'sport = :{port}'   # who has it; or choose another: {name.upper()}_PORT",
        )
    if not taken:
        yield ok(_AREA, f"{', '.join(map(str, ports.values()))}: free")
