"""A server that nothing happens to: it starts, says how to use it, follows its models, and stops."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from fake_llm_repository import FAKE_BACKEND, write_entry
from open_streams import grpc_stream, http_stream
from server_under_test import ServerUnderTest, running_server

EXTRA = ["--backend", str(FAKE_BACKEND)]


def post(url: str, headers: dict[str, str] | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers or {}), timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def models(server: ServerUnderTest) -> dict[str, str]:
    return dict(server.ready()[1]["models"])


def test_it_starts_prints_a_curl_line_that_works_and_stops_with_0(repository: Path, tmp_path: Path) -> None:
    with running_server(repository, run_dir=tmp_path / "run", extra=EXTRA) as server:
        assert server.ready() == (
            200,
            {"ready": True, "phase": "ready", "reasons": [], "models": {"fake-generator": "READY"}, "restarts": 0},
        )
        printed = server.launcher_log_path.read_text().splitlines()
        curl = next(line for line in printed if line.strip().startswith("curl "))
        answer = subprocess.run([*shlex.split(curl), "-sS"], capture_output=True, text=True, timeout=120, check=True)
        events = [json.loads(line[6:]) for line in answer.stdout.splitlines() if line.startswith("data: ")]
        assert len(events) == 24
        assert list(http_stream(server, "fake-generator", "hi", 3)) == ["hi ", "hi ", "hi "]
        assert list(grpc_stream(server, "fake-generator", "hi", 3)) == ["hi ", "hi ", "hi "]
        assert len(server.stubs()) == 1
        assert server.stop() == 0
    assert "stopped; every request finished." in server.launcher_log_path.read_text()


def test_models_come_and_go_without_a_restart_and_a_restart_keeps_them(repository: Path, tmp_path: Path) -> None:
    with running_server(repository, run_dir=tmp_path / "run", extra=EXTRA) as server:
        first = server.tritonserver()
        write_entry(repository, "more-generator", tmp_path / "engines/fake")
        assert post(f"{server.http_url}/v2/repository/models/more-generator/load") == 200
        server.wait_until(lambda: models(server).get("more-generator") == "READY", "the new model in /ready")
        (repository / "fake-generator/config.pbtxt").write_text('backend: "fake_llm"\nversion_policy: { all {} }\n')
        assert post(f"{server.http_url}/v2/repository/models/fake-generator/load") == 200  # changed: a new stub
        server.wait_until(lambda: len(server.stubs()) == 2, "the reloaded model's old stub to end")
        assert list(http_stream(server, "fake-generator", "hi", 1)) == ["hi "]
        assert post(f"{server.http_url}/v2/repository/models/fake-generator/unload") == 200
        server.wait_until(lambda: len(server.stubs()) == 1, "the unloaded model's stub to end")
        server.wait_until(lambda: models(server).get("fake-generator") != "READY", "the unloaded model in /ready")
        assert server.is_ready()
        assert server.tritonserver() == first

        subprocess.run(["kill", "-9", str(first)], check=True)
        server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
        assert models(server) == {"more-generator": "READY"}
        assert server.ready()[1]["restarts"] == 1


def test_beyond_loopback_the_administrative_apis_want_the_key(repository: Path, tmp_path: Path) -> None:
    with running_server(repository, run_dir=tmp_path / "run", extra=[*EXTRA, "--host", "0.0.0.0"]) as server:
        key_file = tmp_path / "run/admin.key"
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        headers = {"triton-llm-admin-key": key_file.read_text().strip()}
        index = f"{server.http_url}/v2/repository/index"
        assert post(index) == 403
        assert post(f"{server.http_url}/v2/repository/models/fake-generator/unload") == 403
        assert post(index, headers) == 200
        assert list(grpc_stream(server, "fake-generator", "hi", 2)) == ["hi ", "hi "]
        assert server.is_ready()


def test_two_servers_share_a_machine(repository: Path, tmp_path: Path) -> None:
    with running_server(repository, models=["fake"], run_dir=tmp_path / "1", extra=EXTRA) as one:
        with running_server(repository, models=["fake-generator"], run_dir=tmp_path / "2", extra=EXTRA) as other:
            assert len(one.stubs()) == len(other.stubs()) == 1
        assert list(http_stream(one, "fake-generator", "alive", 1)) == ["alive "]
