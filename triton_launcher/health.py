"""The launcher's own health port: ``/live`` and ``/ready``, with reasons in JSON.

``/live``: the launcher runs. ``/ready``: requests can be served now, else 503 with the phase and why.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from triton_launcher.errors import LaunchRefused

__all__ = ["Health", "HealthServer", "Phase", "Readiness"]

Phase = Literal["starting", "ready", "restarting", "draining", "stopped"]


@dataclass(frozen=True)
class Readiness:
    """The body of /ready. ``models`` maps each served model to its state; ``restarts`` counts since the start."""

    phase: Phase = "starting"
    reasons: tuple[str, ...] = ("tritonserver is starting",)
    models: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0

    @property
    def ready(self) -> bool:
        return self.phase == "ready" and not self.reasons

    def to_json(self) -> dict[str, Any]:
        return {"ready": self.ready, **asdict(self)}


class Health:
    """The current readiness, written by the supervisor and read by the health server's threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Readiness()

    def update(self, **changes: Any) -> None:
        with self._lock:
            self._now = replace(self._now, **changes)

    def read(self) -> Readiness:
        with self._lock:
            return self._now

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body for a GET."""
        now = self.read()
        if path == "/live":
            return 200, {"live": True, "phase": now.phase}
        if path == "/ready":
            return (200 if now.ready else 503), now.to_json()
        return 404, {"error": f"path '{path}': unknown; this port serves /live and /ready."}


class HealthServer:
    """Listens from construction to `close`; raises LaunchRefused when the port is taken."""

    def __init__(self, host: str, port: int, health: Health) -> None:
        try:
            self._server = _Server((host, port), _handler(health))
        except OSError as error:
            raise LaunchRefused(
                f"health port {port} on {host}: {error.strerror}; choose another with --health-port or HEALTH_PORT."
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status, body = health.answer(self.path.partition("?")[0])
            text = json.dumps(body).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_HEAD = do_GET  # balancers often probe with it

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes come every few seconds: say nothing."""

    return Handler
