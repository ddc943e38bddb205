"""One tritonserver process, from its start to the last trace of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import triton_launcher
from triton_launcher import processes
from triton_launcher.guard import Order

__all__ = ["TritonServer"]

_GUARD_SECONDS = 15.0  # for the guard to sweep once tritonserver has ended


class TritonServer:
    """Started at construction, in a session of its own, under a guard (see `triton_launcher.guard`)."""

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str], log: Path, marker: str) -> None:
        self.marker = marker
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "triton_launcher.guard"],
            env=_guard_environment(marker),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal reaches the launcher alone
        )
        order, answer = self._pipes()
        order.write(Order(command, environment, str(log), marker).to_line())
        order.flush()
        self.pid = int(answer.readline() or 0)  # 0: the command could not be started

    def alive(self) -> bool:
        return self.pid != 0 and processes.is_alive(self.pid)

    def stubs(self) -> Mapping[int, processes.Stub]:
        """Live backend stubs, by process id."""
        return processes.stubs(self.marker)

    def terminate(self) -> None:
        """Ask tritonserver to end in its own way."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def wait(self, seconds: float) -> int | None:
        """The exit code, once the guard has swept; None while it still runs after ``seconds``."""
        try:
            return self._guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it and everything that belongs to it; returns when nothing is left."""
        if self.alive():
            processes.kill(self.pid)
        if self.wait(_GUARD_SECONDS) is None:
            self._guard.kill()
            self._guard.wait()
        processes.sweep(self.marker)
        for pipe in self._pipes():
            pipe.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        return cast(IO[bytes], self._guard.stdin), cast(IO[bytes], self._guard.stdout)


def _guard_environment(marker: str) -> dict[str, str]:
    home = str(Path(triton_launcher.__file__).parents[1])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), processes.MARKER_VARIABLE: marker}
