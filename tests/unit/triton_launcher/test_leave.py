"""``triton-llm drain``: what a container runs before it is stopped."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from triton_launcher import leave_cli
from triton_launcher.errors import LaunchRefused
from triton_launcher.health import Health, HealthServer


@contextmanager
def metrics_port(*texts: str) -> Iterator[int]:
    """Answers with the texts in turn, the last one for ever."""
    left = list(texts)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (left.pop(0) if len(left) > 1 else left[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def gauges(running: int, waiting: int) -> str:
    labels = '{model="m-generator",version="1"}'
    return (
        f"triton_llm_requests_running{labels} {running}\ntriton_llm_requests_waiting{labels} {waiting}.0\n"
        f"triton_llm_requests_finished_total{labels} 99\n"
    )


def drain(*words: str) -> int:
    parser = argparse.ArgumentParser()
    leave_cli.add_arguments(parser)
    return leave_cli.run(parser.parse_args(words))


def test_it_counts_what_runs_and_waits() -> None:
    with metrics_port(gauges(2, 1) + gauges(4, 0)) as port:
        assert leave_cli.in_flight(port) == 7


def test_it_waits_until_nobody_is_left_and_the_server_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    health = Health()
    health.update(phase="ready", reasons=())
    with closing(HealthServer("127.0.0.1", 0, health)) as server, metrics_port(gauges(2, 0), gauges(0, 0)) as port:
        ports = ["--health-port", str(server.port), "--metrics-port", str(port)]
        assert drain(*ports, "--settle-seconds", "0", "--wait-seconds", "60") == 0
    assert not health.read().ready
    assert "nothing is left" in capsys.readouterr().out


def test_when_the_time_is_up_the_rest_is_the_drains(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(HealthServer("127.0.0.1", 0, Health())) as server, metrics_port(gauges(3, 0)) as port:
        ports = ["--health-port", str(server.port), "--metrics-port", str(port)]
        assert drain(*ports, "--settle-seconds", "0", "--wait-seconds", "0.1") == 0
    assert "3 requests still run" in capsys.readouterr().out


def test_without_a_launcher_it_is_refused() -> None:
    with closing(HealthServer("127.0.0.1", 0, Health())) as server:
        port = server.port
    with pytest.raises(LaunchRefused, match="--health-port"):
        drain("--health-port", str(port))


def test_times_that_cannot_hold_are_refused() -> None:
    with pytest.raises(LaunchRefused, match="--wait-seconds 3"):
        drain("--settle-seconds", "5", "--wait-seconds", "3")
