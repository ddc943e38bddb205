"""Step 10: one model over two nodes, started by the command that the launcher prints."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from server_under_test import ServerUnderTest, free_ports
from tests.gpu.conftest import Build
from triton_launcher.nodes import Nodes
from triton_llm_client import Client, GenerateParams

_START = 1800.0  # seconds


def test_step_10_two_nodes_serve_one_model(built: Build) -> None:
    """In a folder that both nodes read: the current one."""
    if os.environ.get("GPU_NODES") != "2" or shutil.which("srun") is None:
        pytest.skip("GPU_NODES=2 in a Slurm allocation of two nodes with two GPUs each is needed")
    here = Path.cwd() / "gpu-nodes"
    shutil.copytree(built("spread", tp=2, pp=2, gpus_per_node=2), here / "spread")
    run = here / "run"
    run.mkdir(parents=True)
    try:
        add_entry("spread", here / "spread", here / "repository")
        ports = dict(zip(("http", "grpc", "metrics", "health"), free_ports(4), strict=True))
        serve = [sys.executable, "-m", "triton_llm.cli", "serve", f"--model-repository={here / 'repository'}"]
        serve += [f"--run-dir={run}", *(f"--{name}-port={port}" for name, port in ports.items())]
        with (run / "launcher.log").open("wb") as log:
            command = shlex.split(Nodes(world_size=4, gpus_per_node=2).command(serve))
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        server = ServerUnderTest(process, run, *ports.values())
        try:
            server.wait_until(server.is_ready, "/ready", _START)
            with Client(server.grpc_url, model="spread") as client:
                assert client.generate("Water boils at", GenerateParams(max_tokens=8)).text
        finally:
            server.stop()
    finally:
        shutil.rmtree(here)
