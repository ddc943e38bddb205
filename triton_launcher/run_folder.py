"""The run folder: one launcher's log, backend folder and note of what it started.

It is locked while its launcher lives. The note of a launcher that died tells the next one what to sweep.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from python_llm.control_access import FILE as CONTROL_FILE
from python_llm.records import RecordError, read_record
from triton_launcher import processes
from triton_launcher.errors import LaunchRefused

__all__ = ["RunFolder", "RunState", "read_state"]

_STATE = "launcher.json"
_LOCK = "launcher.lock"


@dataclass(frozen=True)
class RunState:
    """What a launcher wrote down: enough to find and end all it started. ``tritonserver`` 0: not running."""

    launcher: int
    marker: str
    tritonserver: int = 0


def read_state(path: Path) -> RunState:
    """The note in the run folder; raises FileNotFoundError where no launcher ever ran."""
    return read_record(RunState, json.loads((path / _STATE).read_text("utf-8")), f"'{path / _STATE}'")


class RunFolder:
    """Open it with ``with``: locked inside the block, and leftovers of a dead launcher are swept at entry."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.marker = f"triton_llm_{secrets.token_hex(6)}"
        self._lock: IO[str] | None = None

    def __enter__(self) -> RunFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK).open("a")
        except OSError as error:
            raise LaunchRefused(
                f"run folder '{self.path}': {error.strerror}; it must be writable: choose another with --run-dir."
            ) from error
        self._take_lock(self._lock)
        self.swept = self._sweep_leftovers()
        self.write_state(tritonserver=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes.sweep(self.marker)
        (self.path / CONTROL_FILE).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    def write_state(self, *, tritonserver: int) -> None:
        scratch = self.path / f"{_STATE}.new"
        scratch.write_text(json.dumps(asdict(RunState(os.getpid(), self.marker, tritonserver))) + "\n", "utf-8")
        scratch.replace(self.path / _STATE)

    def _take_lock(self, lock: IO[str]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise LaunchRefused(
                f"run folder '{self.path}': another launcher{self._holder()} uses it; one folder serves one launcher: "
                "stop that one or choose another with --run-dir."
            ) from None

    def _holder(self) -> str:
        try:
            return f" (process {read_state(self.path).launcher})"
        except (OSError, ValueError, RecordError):
            return ""

    def _sweep_leftovers(self) -> bool:
        """Whether a dead launcher had left something."""
        try:
            old = read_state(self.path).marker
        except (OSError, ValueError, RecordError):  # absent, torn or foreign: nothing to learn from it
            return False
        left = bool(processes.marked(old) or processes.shared_memory(old))
        processes.sweep(old)
        return left
