"""What the images run, run here: build what is missing, serve, and end at SIGTERM with streams in flight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from open_streams import OpenStreams, grpc_stream
from server_under_test import ServerUnderTest, assert_nothing_remains, free_ports
from tiny_checkpoint import make_tiny_checkpoint

HOOKS = Path(__file__).parents[3] / "deploy" / "helm" / "triton-llm" / "files"
EXACT = ["--set", "kv_cache_precision=f32", "--set", "inference_precision=f32"]
PROMPT, TOKENS = "word", 800  # long enough to be cut, on a busy machine too


@contextmanager
def container(folder: Path, run_dir: Path, options: Sequence[str], **variables: str) -> Iterator[ServerUnderTest]:
    """``triton-llm container`` as an image's entry point is called, but on free ports; ready inside the block."""
    run_dir.mkdir()
    http, grpc, metrics, health = free_ports(4)
    ports = {"HTTP_PORT": http, "GRPC_PORT": grpc, "METRICS_PORT": metrics, "HEALTH_PORT": health}
    environment = {**os.environ, **{name: str(port) for name, port in ports.items()}, **variables}
    folders = ["--model-repository", str(folder / "repository"), "--run-dir", str(run_dir)]
    command = [sys.executable, "-m", "triton_llm.cli", "container", *folders, *options, "--", "--no-gateway"]
    with (run_dir / "launcher.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    server = ServerUnderTest(process, run_dir, http, grpc, metrics, health)
    try:
        server.wait_until(server.is_ready, "/ready", 900.0)  # it builds first
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("container")
    make_tiny_checkpoint(folder / "checkpoint")
    return folder


def said(server: ServerUnderTest) -> list[dict[str, str]]:
    """The container's stdout: JSON lines, all of them."""
    return [json.loads(line) for line in server.launcher_log_path.read_text("utf-8").splitlines()]


def test_it_builds_serves_leaves_and_ends_with_nothing_torn(folder: Path) -> None:
    engines = str(folder / "engines")
    model = {"MODEL": str(folder / "checkpoint"), "NAME": "Tiny.1", "QUANT": "none", "LOG_FORMAT": "json"}
    model["ALLOW_QUALITY_LOSS"] = "1"  # of random weights
    with container(folder, folder / "run", EXACT, ENGINES=engines, **model) as server:
        marker = server.marker
        for hook, arguments in (("ready", [server.health_url]), ("kserve", [server.http_url, "Tiny.1"])):
            subprocess.run([sys.executable, HOOKS / f"test-{hook}.py", *arguments], check=True, timeout=120)
        alone = "".join(grpc_stream(server, "Tiny.1-generator", PROMPT, TOKENS))
        leave = ["drain", "--settle-seconds", "0", "--wait-seconds", "0"]
        ports = ["--health-port", str(server.health_port), "--metrics-port", str(server.metrics_port)]
        subprocess.run([sys.executable, "-m", "triton_llm.cli", *leave, *ports], check=True, timeout=120)
        assert server.ready()[0] == 503
        streams = OpenStreams(server, "Tiny.1-generator", 3, PROMPT, TOKENS)  # it still serves
        streams.await_first_texts()
        server.process.send_signal(signal.SIGTERM)
        assert any("".join(texts) != alone for texts in streams.texts), "nothing was in flight"
        streams.await_ends()
        assert [error for error in streams.errors if error] == []
        assert {"".join(texts) for texts in streams.texts} == {alone}
        assert server.process.wait(120) == 0  # a second signal would hasten it
    assert_nothing_remains(marker)
    sources = {record["source"] for record in said(server)}
    assert sources == {"launcher", "tritonserver"}
    assert any("every request finished" in record["message"] for record in said(server))

    with container(folder, folder / "again", [], ENGINES=engines, NAME="Tiny.1", LOG_FORMAT="json") as server:
        assert any("not built again" in record["message"] for record in said(server))
        assert "".join(grpc_stream(server, "Tiny.1-generator", PROMPT, 4))


def test_a_stop_during_the_build_ends_it_and_leaves_no_engine(folder: Path) -> None:
    environment = {**os.environ, "MODEL": str(folder / "checkpoint"), "NAME": "stopped", "QUANT": "none"}
    command = [
        sys.executable,
        "-m",
        "triton_llm.cli",
        "container",
        "--engines",
        str(folder / "engines"),
        "--build-only",
    ]
    build = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with build as process:
        assert process.stdout is not None
        assert process.stdout.readline()  # the build speaks: it runs
        process.terminate()
        process.stdout.read()
        assert process.wait(120) not in (0, None)
    assert not (folder / "engines" / "stopped" / "artifact.json").exists()
