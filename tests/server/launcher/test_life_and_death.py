"""What dies is noticed and replaced; what is told to stop stops in order; nothing is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_llm_repository import FAKE_BACKEND
from open_streams import OpenStreams, grpc_stream, http_stream
from server_under_test import ServerUnderTest, assert_nothing_remains, running_server, start_server
from triton_launcher import processes

MODEL = "fake-generator"
ENDLESS = 100_000
EXTRA = ["--backend", str(FAKE_BACKEND)]
SILENCE_SECONDS = 8  # what counts as death; a busy machine must not look dead, and two tests wait for it by the clock


@pytest.fixture
def server(repository: Path, tmp_path: Path) -> Iterator[ServerUnderTest]:
    silence = ["--stall-seconds", str(SILENCE_SECONDS), "--control-seconds", str(SILENCE_SECONDS)]
    extra = [*EXTRA, *silence, "--probe-seconds", "1", "--drain-seconds", "120"]
    with running_server(repository, run_dir=tmp_path / "run", extra=extra) as server:
        yield server


def under_load(server: ServerUnderTest, max_tokens: int = ENDLESS) -> OpenStreams:
    streams = OpenStreams(server, MODEL, 3, "word", max_tokens)
    streams.await_first_texts()
    return streams


def assert_back(server: ServerUnderTest, first: int) -> None:
    """Another tritonserver is ready and generates."""
    server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
    assert list(grpc_stream(server, MODEL, "back", 2)) == ["back ", "back "]


def refusal(server: ServerUnderTest) -> str:
    """The error of a new request; empty when it is served."""
    try:
        list(http_stream(server, MODEL, "late", 1))
    except RuntimeError as error:
        return str(error)
    return ""


def seen_not_ready(server: ServerUnderTest) -> list[str]:
    """Wait for /ready to say no; returns its reasons."""
    found: list[str] = []

    def not_ready() -> bool:
        status, body = server.ready()
        found[:] = body.get("reasons", [])
        return status == 503

    server.wait_until(not_ready, "/ready to say no")
    return found


@pytest.mark.parametrize("victim", ["stub", "tritonserver"])
def test_kill_9_under_load_ends_every_stream_and_the_service_comes_back(server: ServerUnderTest, victim: str) -> None:
    first = server.tritonserver()
    streams = under_load(server)
    os.kill(server.stubs()[0] if victim == "stub" else first, signal.SIGKILL)
    reasons = seen_not_ready(server)
    streams.await_ends()
    assert None not in streams.errors
    assert "gone" in reasons[0]
    assert_back(server, first)
    assert server.ready()[1]["restarts"] == 1


def test_an_idle_backend_that_dies_is_replaced(server: ServerUnderTest) -> None:
    first = server.tritonserver()
    os.kill(server.stubs()[0], signal.SIGKILL)
    assert_back(server, first)


@pytest.mark.parametrize("victim", ["stub", "tritonserver"])
def test_a_stopped_process_is_noticed_by_its_silence(server: ServerUnderTest, victim: str) -> None:
    first = server.tritonserver()
    streams = under_load(server)
    os.kill(server.stubs()[0] if victim == "stub" else first, signal.SIGSTOP)
    streams.await_ends()
    assert None not in streams.errors
    assert_back(server, first)


@pytest.mark.parametrize(("word", "reason"), [("stall", "no step for"), ("sicken", "not healthy")])
def test_a_stuck_or_sick_engine_is_replaced(server: ServerUnderTest, word: str, reason: str) -> None:
    first = server.tritonserver()
    streams = OpenStreams(server, MODEL, 1, word, ENDLESS)
    reasons = seen_not_ready(server)
    streams.await_ends()
    assert None not in streams.errors
    assert reason in reasons[0]
    assert_back(server, first)


def test_sigterm_under_load_finishes_what_runs_and_refuses_what_comes(server: ServerUnderTest) -> None:
    streams = under_load(server, max_tokens=500)  # ten seconds to look at the drain
    server.process.send_signal(signal.SIGTERM)
    assert "drains" in seen_not_ready(server)[0]
    server.wait_until(lambda: "draining: new requests" in server.launcher_log_path.read_text(), "the drain")
    server.wait_until(lambda: "[UNAVAILABLE draining]" in refusal(server), "a refusal")
    streams.await_ends()
    assert streams.errors == [None] * 6
    assert [len(texts) for texts in streams.texts] == [500] * 6
    assert server.process.wait(60) == 0
    assert_nothing_remains(server.marker)


def test_what_does_not_finish_in_time_is_cut_and_the_exit_code_says_so(repository: Path, tmp_path: Path) -> None:
    extra = [*EXTRA, "--drain-seconds", "3"]
    with running_server(repository, run_dir=tmp_path / "run", extra=extra) as server:
        streams = under_load(server)
        assert server.stop() == 1
        streams.await_ends()
        assert None not in streams.errors
    assert "6 requests did not finish in 3 s" in server.launcher_log_path.read_text()


def test_a_launcher_that_was_suspended_does_not_blame_the_server(server: ServerUnderTest) -> None:
    """Suspended for longer than the limits of silence, which the streams' own pace measures."""
    first = server.tritonserver()
    streams = under_load(server, max_tokens=600)
    server.process.send_signal(signal.SIGSTOP)
    streams.await_ends()  # 600 words at 20 ms take at least 12 s
    server.process.send_signal(signal.SIGCONT)
    assert streams.errors == [None] * 6
    server.wait_until(server.is_ready, "/ready")
    server.wait_until(lambda: len(list(http_stream(server, MODEL, "more", 100))) == 100, "a stream of two seconds")
    assert server.tritonserver() == first


def test_a_restart_that_fails_is_tried_again(server: ServerUnderTest, repository: Path) -> None:
    first = server.tritonserver()
    config = repository / MODEL / "config.pbtxt"
    good = config.read_text()
    config.write_text('backend: "none_such"\n')
    os.kill(first, signal.SIGKILL)
    server.wait_until(lambda: server.ready()[1].get("restarts", 0) >= 3, "two restarts to fail")
    assert not server.is_ready()
    config.write_text(good)
    assert_back(server, first)


def test_sigterm_before_it_is_ready_is_a_clean_end(repository: Path, tmp_path: Path) -> None:
    server = start_server(repository, run_dir=tmp_path / "run", extra=EXTRA)
    server.wait_until(lambda: "starts; log:" in server.launcher_log_path.read_text(), "the start")
    assert server.stop() == 0
    assert_nothing_remains(server.marker)


def test_a_second_signal_hastens(server: ServerUnderTest) -> None:
    streams = under_load(server)
    server.process.send_signal(signal.SIGINT)
    server.wait_until(lambda: "draining" in server.launcher_log_path.read_text(), "the drain")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 1
    streams.await_ends()
    assert "a second signal came" in server.launcher_log_path.read_text()


def test_kill_9_of_the_launcher_under_load_leaves_nothing(server: ServerUnderTest) -> None:
    streams = under_load(server)
    server.process.kill()
    server.process.wait()
    streams.await_ends()
    assert None not in streams.errors
    assert_nothing_remains(server.marker)


def test_kill_9_of_the_launchers_guard_is_healed(server: ServerUnderTest) -> None:
    first = server.tritonserver()
    guards = [pid for pid in processes.marked(server.marker) if "triton_launcher.guard" in processes.command_line(pid)]
    os.kill(guards[0], signal.SIGKILL)
    assert_back(server, first)


def test_a_launcher_killed_together_with_its_guard_is_swept_by_the_next(repository: Path, tmp_path: Path) -> None:
    with running_server(repository, run_dir=tmp_path / "run", extra=EXTRA) as server:
        streams = under_load(server)  # a stub that streams would outlive tritonserver
        old = server.marker
        for pid in processes.marked(old):
            if "triton_launcher.guard" in processes.command_line(pid):
                os.kill(pid, signal.SIGSTOP)
        server.process.kill()
        server.process.wait()
        assert processes.marked(old)
        with running_server(repository, run_dir=tmp_path / "run", extra=EXTRA):
            assert_nothing_remains(old)
        streams.await_ends()
