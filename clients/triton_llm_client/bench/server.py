"""A server of the bench's own: ``triton-llm serve`` as a subprocess on free ports, gone when the block ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from python_llm.errors import EngineFailure

__all__ = ["OwnServer", "own_server", "tail_of"]

_START_SECONDS = 180.0
_STOP_SECONDS = 90.0
_VERBS = (sys.executable, "-m", "triton_llm.cli")


@dataclass(frozen=True)
class OwnServer:
    """A running server: its gRPC address, and the folder with its output while it lives.

    ``gateway_url`` is that of OpenAI's API; empty where no gateway was wanted. ``ready_seconds``: from the start of
    the command to ``/ready``.
    """

    url: str
    folder: Path
    http_url: str = ""
    metrics_url: str = ""
    gateway_url: str = ""
    ready_seconds: float = 0.0

    def tail(self, lines: int = 15) -> str:
        """The last lines of what launcher and tritonserver said."""
        return tail_of(self.folder, lines)


@contextmanager
def own_server(artifact: Path, model: str, *, gateway: bool = False) -> Iterator[OwnServer]:
    """Serve ``artifact`` as ``model``; the output is kept until the block ends.

    Raises:
        EngineFailure: the server ended or was not ready in time; the text holds the end of its output.
    """
    with tempfile.TemporaryDirectory(prefix="triton-llm-bench-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        _add_entry(artifact.resolve(), model, folder / "repository")
        http, grpc, metrics, health, openai = _free_ports(5)
        ports = ["--http-port", http, "--grpc-port", grpc, "--metrics-port", metrics, "--health-port", health]
        # Probes wake an idle engine; here they would run beside the other subjects.
        options = ["--model-repository", folder / "repository", "--run-dir", folder / "run", "--probe-seconds", 3600]
        log = stack.enter_context((folder / "serve.log").open("wb"))
        ports += ["--gateway-port", openai] if gateway else ["--no-gateway"]
        command = [*_VERBS, "serve", *map(str, [*options, *ports])]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        stack.callback(_stop, process)
        _wait_until_ready(process, f"http://127.0.0.1:{health}/ready", folder)
        ready = time.perf_counter() - started
        local = "http://127.0.0.1"
        gateway_url = f"{local}:{openai}/v1" if gateway else ""
        yield OwnServer(
            f"127.0.0.1:{grpc}", folder, f"{local}:{http}", f"{local}:{metrics}/metrics", gateway_url, ready
        )


def _add_entry(artifact: Path, model: str, repository: Path) -> None:
    options = [model, "--artifact", str(artifact), "--repository", str(repository)]
    done = subprocess.run([*_VERBS, "repo", "add", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailure("no_repository", f"bench server: {done.stderr.strip()}")


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _is_ready(url):
        if process.poll() is not None or time.monotonic() > deadline:
            state = "ended" if process.poll() is not None else f"was not ready within {_START_SECONDS:.0f} s"
            raise EngineFailure("server_not_ready", f"bench server: it {state}:\n{tail_of(folder)}")
        time.sleep(0.1)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except OSError:  # HTTPError too: 503 until the models are loaded
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tail_of(folder: Path, lines: int = 15) -> str:
    """The last lines of what launcher and tritonserver of that folder said."""
    files: Sequence[Path] = [folder / "serve.log", folder / "run" / "tritonserver.log"]
    texts = [file.read_text("utf-8", "replace").splitlines()[-lines:] for file in files if file.is_file()]
    return "\n".join(line for text in texts for line in text)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
