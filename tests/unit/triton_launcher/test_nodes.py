"""The command over several nodes, run with local ranks: one server, and every other rank a worker."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fake_llm_repository import write_artifact
from local_ranks import install_launchers
from python_llm.artifact import Artifact
from triton_launcher.errors import LaunchRefused
from triton_launcher.nodes import LAUNCHED, Nodes, missing_nodes

SERVE = ["triton-llm", "serve", "--model", "llama 70b"]


def run(command: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{install_launchers(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
    server = tmp_path / "bin" / "triton-llm"
    server.write_text('#!/bin/sh\necho "server: $*"\n', "utf-8")
    server.chmod(0o755)
    return subprocess.run(
        shlex.split(command), capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path, **variables}
    )


def test_the_commands_say_nodes_ranks_and_the_server() -> None:
    nodes = Nodes(world_size=8, gpus_per_node=4)
    assert nodes.count == 2
    assert nodes.command(SERVE) == (
        "srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --mpi=pmix trtllm-llmapi-launch "
        "triton-llm serve --model 'llama 70b'"
    )
    assert nodes.mpi_command(SERVE) == (
        "mpirun -n 8 --map-by ppr:4:node trtllm-llmapi-launch triton-llm serve --model 'llama 70b'"
    )


@pytest.mark.parametrize("kind", ["command", "mpi_command"])
def test_one_rank_serves_and_the_others_work(kind: str, tmp_path: Path) -> None:
    done = run(getattr(Nodes(4, 2), kind)(SERVE), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("server: serve --model llama 70b") == 1
    assert done.stdout.count("server:") == 1
    assert "[rank 0] server:" in done.stdout


def test_a_rank_that_dies_ends_all_with_its_last_line(tmp_path: Path) -> None:
    command = Nodes(4, 2).command(["sleep", "600"])
    done = run(command, tmp_path, FAKE_DYING_RANK="3")
    assert done.returncode == 1
    assert "rank 3 failed with code 9: ['out of memory\\n']" in done.stdout


def test_nodes_of_unequal_size_are_refused() -> None:
    with pytest.raises(LaunchRefused, match="3 GPUs a node do not divide it"):
        Nodes(world_size=8, gpus_per_node=3)


def test_one_node_alone_is_told_what_to_run(tmp_path: Path) -> None:
    manifest = Artifact.open(write_artifact(tmp_path / "artifact", kind="tensorrt_llm-engine")).manifest
    spread = replace(manifest, tp=2, pp=2, world_size=4, features={"gpus_per_node": 2})
    told = missing_nodes(spread, "llama", {})
    assert "2 nodes" in told
    assert told.endswith(Nodes(4, 2).command(["triton-llm", "serve", "--model", "llama"]))
    assert not missing_nodes(spread, "llama", {LAUNCHED: "1"})
    assert not missing_nodes(replace(spread, features={}), "llama", {})
