"""The launcher with our own backend: the real generator over the engine that echoes its prompt."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from open_streams import OpenStreams, grpc_stream
from server_under_test import ServerUnderTest, assert_nothing_remains, running_server
from tiny_checkpoint import make_tiny_checkpoint

MODEL = "echo-generator"
PROMPT = "The ferry left the small harbour"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"), layers=1)


def repository(tmp_path: Path, checkpoint: Path, script: Mapping[str, float]) -> Path:
    add_entry("echo", make_echo_artifact(tmp_path / "engines/echo", checkpoint, script=script), tmp_path / "repository")
    return tmp_path / "repository"


def assert_generates(server: ServerUnderTest) -> None:
    assert "".join(grpc_stream(server, MODEL, "word word word", 3)).startswith("w")


def assert_back(server: ServerUnderTest, first: int) -> None:
    server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
    assert_generates(server)


def test_kill_9_of_the_backend_then_sigterm_under_load(tmp_path: Path, checkpoint: Path) -> None:
    entries = repository(tmp_path, checkpoint, {"step_seconds": 0.02})
    with running_server(entries, run_dir=tmp_path / "run") as server:
        assert_generates(server)
        first = server.tritonserver()
        streams = OpenStreams(server, MODEL, 4, PROMPT, 2000)
        streams.await_first_texts()
        os.kill(server.stubs()[0], signal.SIGKILL)
        streams.await_ends()
        assert None not in streams.errors
        assert_back(server, first)

        streams = OpenStreams(server, MODEL, 4, PROMPT, 200)
        streams.await_first_texts()
        assert server.stop() == 0
        streams.await_ends()
        assert streams.errors == [None] * 8
        assert len({"".join(texts) for texts in streams.texts}) == 1
        assert_nothing_remains(server.marker)


def test_an_engine_that_fails_its_requests_says_so_and_goes_on(tmp_path: Path, checkpoint: Path) -> None:
    entries = repository(tmp_path, checkpoint, {"step_seconds": 0.02, "fail_at": 200})
    with running_server(entries, run_dir=tmp_path / "run") as server:
        first = server.tritonserver()
        streams = OpenStreams(server, MODEL, 4, PROMPT, 2000)
        streams.await_ends()
        assert all("[INTERNAL engine_failed]" in str(error) for error in streams.errors)
        assert_generates(server)
        assert (server.tritonserver(), server.ready()[1]["restarts"]) == (first, 0)


def test_an_engine_that_stalls_under_load_is_replaced(tmp_path: Path, checkpoint: Path) -> None:
    entries = repository(tmp_path, checkpoint, {"step_seconds": 0.02, "stall_at": 200})
    with running_server(entries, run_dir=tmp_path / "run", extra=["--stall-seconds", "3"]) as server:
        first = server.tritonserver()
        streams = OpenStreams(server, MODEL, 4, PROMPT, 2000)
        streams.await_ends()
        assert None not in streams.errors
        assert_back(server, first)
        assert f"'{MODEL}' is stuck: no step for" in server.launcher_log_path.read_text()
