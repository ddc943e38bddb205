from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server_under_test import wait_until
from triton_launcher import processes
from triton_launcher.errors import LaunchRefused
from triton_launcher.run_folder import RunFolder, read_state


def sleeper(marker: str) -> subprocess.Popen[bytes]:
    """A process that carries the marker and waits to be killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env={**os.environ, processes.MARKER_VARIABLE: marker},
        start_new_session=True,
    )
    wait_until(lambda: process.pid in processes.marked(marker), "the sleeper", 30.0)
    return process


def end(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    process.stdin.close()
    return process.wait(30)


def test_one_launcher_at_a_time(tmp_path: Path) -> None:
    with RunFolder(tmp_path), pytest.raises(LaunchRefused, match=rf"process {os.getpid()}.*--run-dir"):
        RunFolder(tmp_path).__enter__()
    with RunFolder(tmp_path) as again:
        assert not again.swept


def test_leftovers_of_a_launcher_that_died_are_swept_at_the_next_start(tmp_path: Path) -> None:
    dead = RunFolder(tmp_path)
    dead.write_state(tritonserver=1)
    region = Path(f"/dev/shm/{dead.marker}_1_region")
    region.touch()
    orphan, bystander = sleeper(dead.marker), sleeper("somebody_else")
    with RunFolder(tmp_path) as folder:
        assert folder.swept
        assert orphan.wait(30) == -9
        assert not region.exists()
        assert bystander.poll() is None
    end(orphan)
    assert end(bystander) == 0


def test_leaving_the_folder_sweeps_its_own(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        region = Path(f"/dev/shm/{folder.marker}_1_region")
        region.touch()
        child = sleeper(folder.marker)
    assert not region.exists()
    assert end(child) == -9


def test_a_torn_note_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "launcher.json").write_text("{")
    with RunFolder(tmp_path) as folder:
        assert read_state(tmp_path).marker == folder.marker


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchRefused, match="--run-dir"):
        RunFolder(tmp_path / "file/run").__enter__()


def test_a_stub_is_read_by_its_command_line() -> None:
    line = (
        "/b/python/triton_python_backend_stub /r/a-generator/1/model.py region 1 1 7 /b/python 336 a-generator_0 /b/llm"
    )
    assert processes.read_stub(line.split()) == processes.Stub("a-generator", "a-generator_0", "1")
    assert processes.read_stub(["/bin/sh", *line.split()[1:]]) is None
    assert processes.read_stub([]) is None
    assert processes.read_stub(line.replace("a-generator_0", "a-generator").split()) is None
