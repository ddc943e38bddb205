"""One start of tritonserver: from the command line to ready, and what is needed to talk to it."""

from __future__ import annotations

import http.client
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from python_llm.control_access import ControlAccess
from python_llm.settings import ADMIN_KEY_VARIABLE
from triton_launcher import command
from triton_launcher.control import Control
from triton_launcher.discovery import Triton
from triton_launcher.errors import StartFailure
from triton_launcher.options import ServeOptions
from triton_launcher.ports import reachable
from triton_launcher.progress import LogReader, log_tail, say
from triton_launcher.server import TritonServer
from triton_launcher.stop import Latch
from triton_launcher.triton_api import ModelState, TritonApi

__all__ = ["Launch", "Running", "draw_admin_key"]

_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Running:
    """A tritonserver and the ways to talk to it."""

    server: TritonServer
    api: TritonApi
    control: Control
    access: ControlAccess

    def end(self) -> None:
        """Kill it and all that belongs to it."""
        self.server.kill()
        self.control.close()


def draw_admin_key() -> str:
    """The key of Triton's restricted APIs: the caller's own where the environment has one, else a fresh one."""
    return os.environ.get(ADMIN_KEY_VARIABLE) or secrets.token_hex(16)


@dataclass
class Launch:
    """Starts tritonserver, again and again if need be; each start has its own secret and shared memory prefix."""

    triton: Triton
    flags: frozenset[str]
    options: ServeOptions
    backend_dir: Path
    marker: str
    admin_key: str
    starts: int = 0

    def start(self, models: Iterable[str]) -> Running:
        """Returns at once; `await_ready` comes next."""
        self.starts += 1
        drawn = command.Secrets(secrets.token_hex(32), self.admin_key)
        prefix = f"{self.marker}_{self.starts}_"
        line = command.build_command(
            self.triton, self.flags, self.options, sorted(models), self.backend_dir, prefix, drawn
        )
        host, ports = reachable(self.options.host), self.options.ports
        grpc_address = f"{host}:{ports.grpc}"
        environment = command.build_environment(self.triton, self.marker, drawn, grpc_address)
        server = TritonServer(line, environment, self.options.log_path, self.marker)
        control = Control(grpc_address, drawn.control)
        access = ControlAccess(f"http://{host}:{ports.http}", drawn.control)
        return Running(server, TritonApi(host, ports.http, self.admin_key), control, access)

    def await_ready(self, running: Running, models: Iterable[str], stop: Latch) -> bool:
        """True once every model is ready; False when a stop was asked for first.

        Raises:
            StartFailure: tritonserver ended, or ``start_seconds`` passed.
        """
        log = LogReader(self.options.log_path)
        deadline = time.monotonic() + self.options.start_seconds
        while not stop.wait(_LOOK_SECONDS):
            for line in log.news():
                say(line)
            if not running.server.alive():
                raise StartFailure(self._ended(running))
            if _all_ready(running.api, models):
                return True
            if time.monotonic() > deadline:
                raise StartFailure(
                    f"tritonserver: not ready after {self.options.start_seconds:g} s (--start-seconds). "
                    f"Its last lines:\n{log_tail(self.options.log_path)}"
                )
        return False

    def _ended(self, running: Running) -> str:
        code = running.server.wait(_LOOK_SECONDS * 100)
        return (
            f"tritonserver: it ended with code {code} before it was ready. Its last lines:\n"
            f"{log_tail(self.options.log_path)}"
        )


def _all_ready(api: TritonApi, models: Iterable[str]) -> bool:
    if not api.is_ready():
        return False
    try:
        states: Mapping[str, ModelState] = api.models()
    except (OSError, http.client.HTTPException):
        return False
    return all(model in states and states[model].ready for model in models)
