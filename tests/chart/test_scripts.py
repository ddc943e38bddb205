"""The chart's scripts, run here with stand-ins for what a cluster has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chart.render import CHART
from tests.chart.tools import ROOT, script
from triton_launcher.nodes import Nodes

FILES = CHART / "files"
SHELL = sorted([*FILES.glob("*.sh"), ROOT / ".ci" / "run"])
_SAY = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n'


def run(name: str, *arguments: str, programs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """With ``programs`` first on PATH."""
    environment: Mapping[str, str] = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
    command = ["/bin/sh", str(FILES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("triton-llm", "mpirun", "ssh"):
        (folder / name).write_text(_SAY, "utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("file", SHELL, ids=lambda file: file.name)
def test_the_linter_finds_nothing(file: Path) -> None:
    done = subprocess.run([script("shellcheck"), file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_an_engine_that_is_there_is_verified_and_entered(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "artifact.json").write_text("{}", "utf-8")
    done = run("enter-engine.sh", str(tmp_path), "M", "/r", "60", "--set", "threads=2", programs=programs)
    said = done.stdout.splitlines()[1:]
    assert said == [
        "repo",
        "add",
        "M",
        "--artifact",
        str(tmp_path),
        "--repository",
        "/r",
        "--verify",
        "--set",
        "threads=2",
    ]


def test_an_engine_that_does_not_come_is_told(programs: Path, tmp_path: Path) -> None:
    done = run("enter-engine.sh", str(tmp_path), "M", "/r", "0", programs=programs)
    assert done.returncode == 1
    assert "look at the build Job" in done.stderr


def test_the_leader_starts_a_rank_for_each_gpu_of_the_group(programs: Path) -> None:
    variables = {"LWS_LEADER_ADDRESS": "set-0.set.llm", "LWS_GROUP_SIZE": "2"}
    text = (FILES / "lead.sh").read_text("utf-8").replace("/tmp/known_hosts", str(programs / "known_hosts"))
    (programs / "key").write_text("ssh-ed25519 AAAA", "utf-8")
    (programs / "lead.sh").write_text(text.replace("/ssh/ssh_host_ed25519_key.pub", str(programs / "key")), "utf-8")
    command = ["/bin/sh", str(programs / "lead.sh"), "8", "triton-llm", "serve"]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    said = done.stdout.splitlines()
    said = said[said.index(str(programs / "mpirun")) + 1 :]
    like = Nodes(16, 8).mpi_command(["triton-llm", "serve"]).split()[1:]
    assert said[:4] == like[:4]
    assert said[said.index("--host") + 1] == "set-0.set.llm:8,set-0-1.set.llm:8"
    assert said[-3:] == like[-3:]
    assert (programs / "known_hosts").read_text("utf-8") == "* ssh-ed25519 AAAA\n"


@pytest.mark.parametrize("name", ["test-ready.py", "test-kserve.py", "test-chat.py"])
def test_a_hook_fails_where_nobody_answers(name: str) -> None:
    command = [sys.executable, str(FILES / name), "http://127.0.0.1:9", "m"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
