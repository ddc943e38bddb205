"""The guard ends what it started, and all that carries the marker, when either side ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from server_under_test import assert_nothing_remains, wait_until
from triton_launcher import processes
from triton_launcher.run_folder import RunFolder
from triton_launcher.server import TritonServer

# A server with a child in a session of its own, as a stub that outlives it would be.
SERVER = """
import os, signal, subprocess, sys
subprocess.Popen(["sleep", "1000"], start_new_session=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", flush=True)
{end}
"""


def start(tmp_path: Path, end: str) -> TritonServer:
    marker = RunFolder(tmp_path).marker
    Path(f"/dev/shm/{marker}_1_region").touch()
    environment = {**os.environ, processes.MARKER_VARIABLE: marker}
    server = TritonServer((sys.executable, "-c", SERVER.format(end=end)), environment, tmp_path / "log", marker)
    wait_until(lambda: "started" in (tmp_path / "log").read_text(), "the server", 30.0)
    return server


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_the_servers_end_takes_its_orphans_along(tmp_path: Path, end: str, code: int) -> None:
    server = start(tmp_path, end)
    assert server.wait(30) == code
    assert not server.alive()
    assert_nothing_remains(server.marker)
    server.kill()


def test_kill_ends_a_server_that_would_run_for_ever(tmp_path: Path) -> None:
    server = start(tmp_path, "signal.pause()")
    server.terminate()
    assert server.alive()
    server.kill()
    assert not server.alive()
    assert_nothing_remains(server.marker)


def test_a_guard_that_is_killed_takes_the_server_along(tmp_path: Path) -> None:
    server = start(tmp_path, "signal.pause()")
    guard = next(
        pid for pid in processes.marked(server.marker) if "triton_launcher.guard" in processes.command_line(pid)
    )
    processes.kill(guard)
    wait_until(lambda: not server.alive(), "the server to end with its guard", 30.0)
    server.kill()
    assert_nothing_remains(server.marker)


def test_a_command_that_does_not_exist_is_a_server_that_ended(tmp_path: Path) -> None:
    server = TritonServer(("/nowhere/tritonserver",), {}, tmp_path / "log", RunFolder(tmp_path).marker)
    assert not server.alive()
    assert server.wait(30) == 127
    assert "/nowhere/tritonserver" in (tmp_path / "log").read_text()
    server.kill()
