"""Handles of open files against the requests that may be open at once."""

from __future__ import annotations

from collections.abc import Iterator

from triton_doctor.finding import Finding, ok, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["check"]

_AREA = "files"
_OWN = 256  # libraries, models, pipes, logs of tritonserver and the largest backend process


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """A request is a connection at Triton, and one more at the gateway where that is."""
    requests = sum(knobs.max_running + knobs.max_queue_size for knobs in setup.serving().values())
    wanted = _OWN + requests
    if machine.open_files < wanted:
        yield wrong(
            _AREA,
            f"{machine.open_files} files may be open at once, and {requests} requests with the server's own need "
            f"{wanted}: new connections will be refused",
            f"ulimit -n {max(4096, 2 * wanted)}   # or LimitNOFILE= of its systemd unit, --ulimit nofile= of docker",
        )
    else:
        yield ok(_AREA, f"{machine.open_files} files may be open at once; {wanted} are needed at most")
