"""The launcher's own health port: ``/live`` and ``/ready``, with reasons in JSON, and ``/metrics``.

``/live``: the launcher runs. ``/ready``: requests can be served now, else 503 with the phase and why. ``POST /leave``,
from this machine alone: not ready from now on, since a stop will follow; requests are served until it comes.
"""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, get_args

from triton_launcher.errors import LaunchRefused

__all__ = ["Health", "HealthServer", "Phase", "Readiness"]

_LEAVING = "the server was told that it will be stopped"

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
        self._leaving = False

    def leave(self) -> None:
        """Not ready from now on, whatever the supervisor finds."""
        with self._lock:
            self._leaving = True

    def update(self, **changes: Any) -> None:
        with self._lock:
            self._now = replace(self._now, **changes)

    def read(self) -> Readiness:
        with self._lock:
            now = self._now
            if self._leaving and now.phase == "ready":
                return replace(now, phase="draining", reasons=(_LEAVING, *now.reasons))
            return now

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body for a GET."""
        now = self.read()
        if path == "/live":
            return 200, {"live": True, "phase": now.phase}
        if path == "/ready":
            return (200 if now.ready else 503), now.to_json()
        return 404, {"error": f"path '{path}': unknown; this port serves /live, /ready and /metrics."}

    def metrics(self) -> str:
        """The same in Prometheus' text format."""
        now = self.read()
        rows = [
            ("triton_llm_launcher_ready", "gauge", "1: requests can be served now.", {"": int(now.ready)}),
            (
                "triton_llm_launcher_phase",
                "gauge",
                "1 for the phase it is in.",
                {f'{{phase="{phase}"}}': int(phase == now.phase) for phase in get_args(Phase)},
            ),
            (
                "triton_llm_launcher_restarts_total",
                "counter",
                "Restarts of tritonserver since the launcher started.",
                {"": now.restarts},
            ),
        ]
        return "".join(
            f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
            + "".join(f"{name}{labels} {value}\n" for labels, value in series.items())
            for name, kind, text, series in rows
        )


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
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, health.metrics(), "text/plain; version=0.0.4; charset=utf-8")
                return
            status, body = health.answer(path)
            self._answer(status, json.dumps(body) + "\n", "application/json")

        do_HEAD = do_GET  # balancers often probe with it

        def do_POST(self) -> None:
            here = ipaddress.ip_address(self.client_address[0]).is_loopback
            if self.path != "/leave" or not here:
                self._answer(
                    404, json.dumps({"error": "POST: /leave alone, from this machine."}) + "\n", "application/json"
                )
                return
            health.leave()
            self._answer(200, json.dumps(health.read().to_json()) + "\n", "application/json")

        def _answer(self, status: int, body: str, kind: str) -> None:
            text = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes come every few seconds: say nothing."""

    return Handler
