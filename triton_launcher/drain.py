"""The end of a server in order: refuse new requests, finish old ones, then end Triton.

Triton's own in-flight count leaks and its gRPC accepts requests while it exits, so the generators are asked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from python_llm.errors import ServeError

from triton_launcher.control import NoAnswer
from triton_launcher.launch import Running
from triton_launcher.options import ServeOptions
from triton_launcher.stop import Latch

__all__ = ["drain"]

_LOOK_SECONDS = 0.1
_SPARE_SECONDS = 3.0  # beyond tritonserver's own exit timeout


def drain(running: Running, generators: Sequence[str], options: ServeOptions, hasten: Latch) -> str | None:
    """Drain and end the server; None when every request finished, else what was cut."""
    unfinished = _finish_requests(running, generators, options, hasten)
    running.server.terminate()
    deadline = time.monotonic() + options.exit_seconds + _SPARE_SECONDS
    while running.server.alive() and time.monotonic() < deadline and not hasten.wait(_LOOK_SECONDS):
        pass
    running.end()
    return unfinished


def _finish_requests(running: Running, generators: Sequence[str], options: ServeOptions, hasten: Latch) -> str | None:
    deadline = time.monotonic() + options.drain_seconds
    try:
        for model in generators:
            running.control.drain(model, options.control_seconds)
        while (left := _busy(running, generators, options)) and not hasten.wait(_LOOK_SECONDS):
            if time.monotonic() > deadline:
                return f"{left} requests did not finish in {options.drain_seconds:g} s (--drain-seconds) and were cut"
    except (NoAnswer, ServeError) as error:
        return f"the generators could not be drained: {error}"
    return f"{left} requests were cut: a second signal came" if left else None


def _busy(running: Running, generators: Sequence[str], options: ServeOptions) -> int:
    return sum(running.control.status(model, options.control_seconds).busy for model in generators)
