"""A real server under test: ``triton-llm serve`` as a subprocess on free ports, ready when the block begins.

The launcher's and tritonserver's output are kept; whatever dies raises with the tail of both. Leaving the block
sends SIGTERM and asserts that no process and no shared memory is left.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_launcher import processes
from triton_launcher.run_folder import read_state

__all__ = [
    "ServerDied",
    "ServerUnderTest",
    "assert_nothing_remains",
    "free_ports",
    "running_server",
    "start_server",
    "wait_until",
]

START_SECONDS = 240.0  # only catches hangs
STOP_SECONDS = 120.0


class ServerDied(AssertionError):
    """The server under test ended or never became ready; the text holds the tail of its logs."""


@dataclass
class ServerUnderTest:
    """A running launcher with its tritonserver."""

    process: subprocess.Popen[bytes]
    run_dir: Path
    http_port: int
    grpc_port: int
    metrics_port: int
    health_port: int

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def grpc_url(self) -> str:
        """As tritonclient wants it: host and port, no scheme."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def health_url(self) -> str:
        return f"http://127.0.0.1:{self.health_port}"

    @property
    def log_path(self) -> Path:
        """tritonserver's output, the backend's lines included."""
        return self.run_dir / "tritonserver.log"

    @property
    def launcher_log_path(self) -> Path:
        return self.run_dir / "launcher.log"

    @property
    def marker(self) -> str:
        """What marks every process and shared memory region of this server."""
        return read_state(self.run_dir).marker

    def stubs(self) -> tuple[int, ...]:
        """Process ids of the live backend stubs, all models."""
        return tuple(processes.stubs(self.marker))

    def tritonserver(self) -> int:
        """Process id of the current tritonserver."""
        return read_state(self.run_dir).tritonserver

    def ready(self) -> tuple[int, dict[str, Any]]:
        """Status and body of ``/ready``; (0, {}) when nobody answers."""
        return _get_json(f"{self.health_url}/ready")

    def is_ready(self) -> bool:
        return self.ready()[0] == 200

    def tail(self, lines: int = 40) -> str:
        return "\n".join(f"--- {path.name}\n{_tail(path, lines)}" for path in (self.launcher_log_path, self.log_path))

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = START_SECONDS) -> None:
        """Poll ``condition``; raises ServerDied with the logs when the launcher ends or the deadline passes."""
        try:
            wait_until(lambda: self.process.poll() is not None or condition(), what, seconds)
        except TimeoutError as error:
            raise ServerDied(f"{error}\n{self.tail()}") from None
        if self.process.poll() is not None and not condition():
            raise ServerDied(f"waiting for {what}: the launcher ended with {self.process.returncode}\n{self.tail()}")

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerDied(f"the launcher did not end in {STOP_SECONDS:.0f} s after SIGTERM\n{self.tail()}") from None


@contextmanager
def running_server(
    repository: Path, *, models: Sequence[str] | None = None, run_dir: Path, extra: Sequence[str] = ()
) -> Iterator[ServerUnderTest]:
    """Serve ``repository`` until the block ends.

    ``models`` limits what is loaded, ``extra`` is appended to the command line (``"--", "--log-verbose=1"``
    reaches tritonserver). The block may stop or kill the server itself.
    """
    server = start_server(repository, models=models, run_dir=run_dir, extra=extra)
    try:
        server.wait_until(server.is_ready, "/ready")
        yield server
    finally:
        marker = _marker_or_none(run_dir)
        server.stop()
        if marker is not None:
            assert_nothing_remains(marker)


def assert_nothing_remains(marker: str) -> None:
    """No process and no shared memory region of the server marked ``marker`` exists, within a wide deadline."""

    def gone() -> bool:
        return not processes.marked(marker) and not processes.shared_memory(marker)

    with suppress(TimeoutError):
        wait_until(gone, "leftovers to go", 30.0)
    left = {pid: processes.command_line(pid) for pid in processes.marked(marker)}
    assert not left, f"processes left behind: {left}"
    assert not processes.shared_memory(marker), f"shared memory left behind: {processes.shared_memory(marker)}"


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Poll ``condition``; raises TimeoutError after ``seconds``, a deadline that only catches hangs."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)


def start_server(
    repository: Path,
    *,
    models: Sequence[str] | None = None,
    run_dir: Path,
    extra: Sequence[str] = (),
    gateway: int = 0,
) -> ServerUnderTest:
    """As `running_server`, without waiting for it and without ending it. ``gateway``: the port of one beside it."""
    run_dir.mkdir(parents=True, exist_ok=True)
    http, grpc, metrics, health = free_ports(4)
    command = [sys.executable, "-m", "triton_llm.cli", "serve", "--model-repository", str(repository)]
    command += ["--run-dir", str(run_dir), "--http-port", str(http), "--grpc-port", str(grpc)]
    command += ["--metrics-port", str(metrics), "--health-port", str(health)]
    command += ["--gateway-port", str(gateway)] if gateway else ["--no-gateway"]
    for model in models or ():
        command += ["--model", model]
    with (run_dir / "launcher.log").open("wb") as log:
        process = subprocess.Popen([*command, *extra], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    return ServerUnderTest(process, run_dir, http, grpc, metrics, health)


def _marker_or_none(run_dir: Path) -> str | None:
    try:
        return read_state(run_dir).marker
    except FileNotFoundError:
        return None  # it ended before it started anything


def _get_json(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


def _tail(path: Path, lines: int) -> str:
    if not path.is_file():
        return "(no such file)"
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-lines:])
