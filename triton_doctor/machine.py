"""The machine as checks see it: files under a root, tools, limits, sockets. A test gives another one."""

from __future__ import annotations

import http.client
import os
import resource
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triton_launcher.ports import listening_error

__all__ = ["Answer", "Machine", "Tool"]

_TOOL_SECONDS = 60.0
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Tool:
    """How a tool ended. ``code`` None: it is not installed, or does not answer."""

    code: int | None
    output: str = ""


@dataclass(frozen=True)
class Answer:
    """Of an HTTP server. ``status`` 0: nobody answers, and ``text`` says why."""

    status: int
    text: str


def _run(command: Sequence[str]) -> Tool:
    if shutil.which(command[0]) is None:
        return Tool(None)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return Tool(None, str(error))
    return Tool(done.returncode, done.stdout or done.stderr)


def _get(url: str) -> Answer:
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
            return Answer(answer.status, answer.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, str(getattr(error, "reason", None) or error))


def _bind(host: str, port: int) -> str:
    error = listening_error(host, port)
    return "" if error is None else error.strerror or str(error)


def _room(folder: Path) -> tuple[int, int]:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


@dataclass(frozen=True)
class Machine:
    """Defaults are this machine. ``root`` stands for ``/`` in every path that is read."""

    root: Path = Path("/")
    run: Callable[[Sequence[str]], Tool] = _run
    get: Callable[[str], Answer] = _get
    bind: Callable[[str, int], str] = _bind  # why it cannot listen there; empty: it can
    room: Callable[[Path], tuple[int, int]] = _room  # bytes free and in all, of a file system; raises OSError
    affinity: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    open_files: int = field(default_factory=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str | None:
        """A file's text; None where there is none. Raises PermissionError."""
        try:
            return self.path(absolute).read_text("utf-8", "replace")
        except PermissionError:
            raise
        except OSError:
            return None

    def alive(self, pid: int) -> bool:
        return self.path(f"/proc/{pid}").is_dir()
