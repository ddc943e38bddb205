"""The doctor beside a real server: well, measured, and with a backend that is stuck."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint
from triton_doctor.checks import examine
from triton_doctor.finding import Finding
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup
from triton_launcher import processes
from triton_launcher.ports import Ports
from triton_llm.cli import main

QUICK = ("--control-seconds", "4", "--stall-seconds", "8")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerUnderTest]:
    artifact = make_echo_artifact(tmp_path / "engines" / "m", make_tiny_checkpoint(tmp_path / "checkpoint"))
    add_entry("m", artifact, tmp_path / "repository", ServingConfig(kv_cache_bytes=1 << 20))
    with running_server(tmp_path / "repository", run_dir=tmp_path / "run", extra=QUICK) as running:
        yield running


def setup_of(server: ServerUnderTest, repository: Path) -> Setup:
    ports = Ports(server.http_port, server.grpc_port, server.metrics_port, server.health_port)
    return Setup(repository, server.run_dir, ports=ports)


def troubles(server: ServerUnderTest, repository: Path, *areas: str) -> list[Finding]:
    found = examine(Machine(), setup_of(server, repository), *([areas] if areas else []))
    return [finding for finding in found if finding.state in ("wrong", "unknown")]


def test_well_then_stuck_then_restarted(
    server: ServerUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tmp_path / "repository"
    assert troubles(server, repository) == []

    ports = {"http": server.http_port, "grpc": server.grpc_port, "metrics": server.metrics_port}
    ports |= {"health": server.health_port}
    options = [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
    options += ["--repository", str(repository), "--run-dir", str(server.run_dir)]
    capsys.readouterr()
    assert main(["doctor", "--self-test", "--json", *options]) == 0
    told = {
        f["text"].split(":")[0]: f for f in json.loads(capsys.readouterr().out)["findings"] if f["area"] == "self-test"
    }
    assert "GB/s" in told["memory"]["text"]
    assert "tokens/s in one stream" in told["model 'm'"]["text"]

    (stub,) = (pid for pid, stub in processes.stubs(server.marker).items() if stub.model == "m-generator")
    os.kill(stub, signal.SIGSTOP)
    seen: list[Finding] = []

    def stuck() -> bool:
        seen[:] = [f for f in troubles(server, repository, "server") if "'m-generator' is stuck" in f.text]
        return bool(seen)

    server.wait_until(stuck, "the doctor to name the stuck backend")
    assert "no control answer" in seen[0].text or "no step" in seen[0].text
    assert "the launcher restarts it" in seen[0].next
    server.wait_until(lambda: not troubles(server, repository), "all to be well again")
    assert main(["doctor", *options]) == 0
    assert "restarted tritonserver 1 times" in capsys.readouterr().out
