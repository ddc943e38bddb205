from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from triton_launcher.errors import LaunchRefused
from triton_launcher.health import Health, HealthServer


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def server(health: Health) -> Iterator[HealthServer]:
    server = HealthServer("127.0.0.1", 0, health)
    yield server
    server.close()


def get(server: HealthServer, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_before_the_start_it_lives_and_is_not_ready(server: HealthServer) -> None:
    assert get(server, "/live") == (200, {"live": True, "phase": "starting"})
    status, body = get(server, "/ready")
    assert status == 503
    assert body["ready"] is False
    assert body["reasons"] == ["tritonserver is starting"]


def test_ready_tells_models_and_restarts(server: HealthServer, health: Health) -> None:
    health.update(phase="ready", reasons=(), models={"a-generator": "READY"}, restarts=2)
    body = {"ready": True, "phase": "ready", "reasons": [], "models": {"a-generator": "READY"}, "restarts": 2}
    assert get(server, "/ready?verbose") == (200, body)


@pytest.mark.parametrize("phase", ["starting", "restarting", "draining", "stopped"])
def test_every_other_phase_is_503(server: HealthServer, health: Health, phase: str) -> None:
    health.update(phase=phase, reasons=("why",))
    status, body = get(server, "/ready")
    assert (status, body["phase"], body["reasons"]) == (503, phase, ["why"])
    assert get(server, "/live")[0] == 200


def test_a_model_that_is_missing_is_503_in_phase_ready(server: HealthServer, health: Health) -> None:
    health.update(phase="ready", reasons=("model 'a' is UNLOADING",))
    assert get(server, "/ready")[0] == 503


def test_head_says_as_much_without_a_body(server: HealthServer) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/live", method="HEAD")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert (answer.status, answer.read()) == (200, b"")
        assert int(answer.headers["Content-Length"]) > 0


def test_unknown_paths_name_the_known_ones(server: HealthServer) -> None:
    status, body = get(server, "/nothing")
    assert status == 404
    assert "/live, /ready and /metrics" in body["error"]


def test_a_taken_port_is_refused(server: HealthServer, health: Health) -> None:
    with pytest.raises(LaunchRefused, match="HEALTH_PORT"):
        HealthServer("127.0.0.1", server.port, health)


def post(server: HealthServer, path: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_server_that_will_be_stopped_is_not_ready_whatever_the_supervisor_finds(
    server: HealthServer, health: Health
) -> None:
    health.update(phase="ready", reasons=())
    assert get(server, "/ready")[0] == 200
    assert post(server, "/leave") == 200
    health.update(phase="ready", reasons=())
    status, body = get(server, "/ready")
    assert (status, body["phase"]) == (503, "draining")
    assert "stopped" in body["reasons"][0]
    assert get(server, "/live")[0] == 200
    health.update(phase="restarting", reasons=("gone",))
    assert get(server, "/ready")[1]["phase"] == "restarting"


@pytest.mark.parametrize("path", ["/", "/ready", "/leave/now"])
def test_nothing_else_is_posted(server: HealthServer, health: Health, path: str) -> None:
    health.update(phase="ready", reasons=())
    assert post(server, path) == 404
    assert get(server, "/ready")[0] == 200


def test_the_metrics_tell_phase_readiness_and_restarts(server: HealthServer, health: Health) -> None:
    health.update(phase="ready", reasons=(), restarts=3)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        found = {line.split()[0]: line.split()[1] for line in answer.read().decode().splitlines() if line[0] != "#"}
    assert found["triton_llm_launcher_ready"] == "1"
    assert found["triton_llm_launcher_restarts_total"] == "3"
    assert found['triton_llm_launcher_phase{phase="ready"}'] == "1"
    assert sum(int(value) for name, value in found.items() if "phase" in name) == 1
