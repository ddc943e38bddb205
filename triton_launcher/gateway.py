"""The gateway beside Triton: a process of its own, started with the launcher, restarted when it dies.

It carries no marker of the run: a restart of tritonserver sweeps all that does, and the gateway lives on over it. It
ends with the launcher all the same, since the kernel tells it of the launcher's end.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec

from python_llm.settings import ADMIN_KEY_VARIABLE
from triton_launcher.backoff import Backoff
from triton_launcher.errors import LaunchRefused
from triton_launcher.options import ServeOptions
from triton_launcher.ports import is_loopback, reachable
from triton_launcher.progress import say
from triton_launcher.stop import Latch

__all__ = ["GatewayProcess", "check_gateway"]

_LOOK_SECONDS = 0.1
_READY_SECONDS = 30.0  # after Triton is
_ANSWER_SECONDS = 1.0
_SPARE_SECONDS = 10.0  # beyond the grace: it tells what is cut
_KEYS = ("GATEWAY_KEYS_FILE", "GATEWAY_KEYS")  # variables that name API keys; the gateway reads them itself
_LIBRARIES = ("fastapi", "uvicorn", "pybreaker", "prometheus_client", "httpx")


def check_gateway(options: ServeOptions) -> None:
    """Raises LaunchRefused where the gateway is wanted and cannot run."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if options.gateway_port and missing:
        raise LaunchRefused(
            f"gateway: package '{missing[0]}' is not installed; install the extras 'gateway' and 'client', or serve "
            "with --no-gateway."
        )


class GatewayProcess:
    """The main thread alone uses it: the kernel ties the gateway's life to the thread that starts it."""

    def __init__(self, options: ServeOptions, admin_key: str) -> None:
        self._options = options
        self._admin_key = admin_key
        self._backoff = Backoff()
        self._log = options.run_dir.absolute() / "gateway.log"
        self._log.write_bytes(b"")
        self._patience = 0.0  # until when it may become ready, as time.monotonic(); 0: nobody waits yet
        self._start_at = 0.0  # time.monotonic() seconds; 0: it runs
        self._process = self._start()

    def look(self) -> None:
        """Start it again when it ended; the second time within a minute only after a while."""
        if self._start_at:
            if time.monotonic() >= self._start_at:
                self._start_at, self._process = 0.0, self._start()
        elif (code := self._process.poll()) is not None:
            delay = self._backoff.next_delay(time.monotonic())
            say(f"the gateway ended with code {code}; it starts again in {delay:g} s; its log: {self._log}")
            self._start_at = time.monotonic() + delay

    def may_be_told(self) -> bool:
        """Whether it is ready, or has had its time to become so; Triton must be ready."""
        self._patience = self._patience or time.monotonic() + _READY_SECONDS
        if self._is_ready():
            return True
        late = time.monotonic() > self._patience
        if late:
            say(f"the gateway is not ready yet; its log: {self._log}")
        return late

    def drain(self, hasten: Latch) -> None:
        """It refuses new connections and finishes its streams, at most the grace long; returns when it is gone."""
        if self._start_at:
            return
        self._tell()
        deadline, told = time.monotonic() + self._options.drain_seconds + _SPARE_SECONDS, False
        while self._process.poll() is None and time.monotonic() < deadline:
            if hasten.wait(_LOOK_SECONDS) and not told:
                told = True
                self._tell()
            elif told:
                time.sleep(_LOOK_SECONDS)
        say("the gateway stopped." if self._process.poll() == 0 else f"the gateway was cut; its log: {self._log}")
        self.kill()

    def end(self) -> None:
        """End it where Triton is gone already: its streams are told so at once."""
        for _ in range(2):
            if self._process.poll() is None:
                self._tell()
                time.sleep(_LOOK_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SPARE_SECONDS)
        self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _tell(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command(),
                env={**os.environ, **({ADMIN_KEY_VARIABLE: self._admin_key} if self._admin_key else {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal reaches the launcher alone
            )

    def _command(self) -> list[str]:
        options, ports = self._options, self._options.ports
        command = [sys.executable, "-m", "triton_llm.cli", "gateway", "--parent", str(os.getpid())]
        command += ["--host", options.host, "--port", str(options.gateway_port)]
        command += ["--upstream", f"{reachable(options.host)}:{ports.grpc},{ports.health}"]
        if not is_loopback(options.host) and not any(map(os.environ.get, _KEYS)):
            command.append("--anonymous")  # Triton's own ports, beside it, ask nobody for a key either
        return [*command, "--grace-seconds", f"{options.drain_seconds:g}"]

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(
            reachable(self._options.host), self._options.gateway_port, timeout=_ANSWER_SECONDS
        )
        try:
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
