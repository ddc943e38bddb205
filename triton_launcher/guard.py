"""A small process between the launcher and tritonserver, so that nothing outlives a launcher that was killed.

``python -m triton_launcher.guard``: reads one `Order` (a JSON line) from stdin, starts the command, writes its
process id to stdout, and waits for the first of two ends: the command's, or the launcher's (stdin closes). Then
it kills and sweeps all that carries the order's marker, and exits with the command's code. Should the guard
itself be killed, the kernel kills the command, and the launcher sweeps.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from triton_launcher import processes

__all__ = ["Order", "main"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.1
_REAP_SECONDS = 5.0
# Triton 2.50's HTTP server keeps a list of a request's pieces on its thread's stack: with the usual 8 MiB, one body of
# 4 MB ends the server with a segmentation fault. Stacks are reserved, not used, so large ones cost nothing.
_STACK_BYTES = 256 << 20


@dataclass(frozen=True)
class Order:
    """What to run and under which marker."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: str
    marker: str

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def main() -> int:
    order = Order(**json.loads(sys.stdin.buffer.readline()))
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)  # the launcher alone decides; its end closes stdin
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphaned stubs become ours, so that we can reap them
    try:
        child = _start(order)
    except OSError as error:
        return _not_started(order, error)
    with suppress(BrokenPipeError):
        print(child.pid, flush=True)
    while child.poll() is None and not _launcher_gone():
        pass
    child.kill()
    code = child.wait()
    processes.sweep(order.marker)
    _reap()
    return code if code >= 0 else 128 - code


def _start(order: Order) -> subprocess.Popen[bytes]:
    with open(order.log, "ab") as log:
        return subprocess.Popen(
            order.command,
            env=order.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_prepare,
        )


def _not_started(order: Order, error: OSError) -> int:
    """As a shell says it."""
    with open(order.log, "a", encoding="utf-8") as log:
        log.write(f"{error}\n")
    return 127


def _prepare() -> None:
    """In the child, before tritonserver: default signals, the guard's fate, large thread stacks."""
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    stack = _STACK_BYTES if most == resource.RLIM_INFINITY else min(_STACK_BYTES, most)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, most))


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _launcher_gone() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
    return bool(readable) and os.read(sys.stdin.fileno(), 1) == b""


def _reap() -> None:
    """A process that was killed needs a moment to give its memory back: wait for it, so that no zombie is left."""
    deadline = time.monotonic() + _REAP_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)


if __name__ == "__main__":
    raise SystemExit(main())
