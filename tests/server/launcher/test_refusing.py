"""A generator that lives and takes no requests: said by every route and by /ready, and no reason to restart it."""

from __future__ import annotations

from pathlib import Path

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from python_llm.settings import ServingConfig
from server_under_test import assert_nothing_remains, start_server
from tests.soak.load import run_load
from tests.soak.plan import Plan, Route
from tiny_checkpoint import make_tiny_checkpoint

ROUTES: tuple[Route, ...] = ("generator", "unary", "ensemble")


def test_short_of_memory_every_route_says_so_and_ready_too(tmp_path: Path) -> None:
    """The bound is one byte, so that it is passed from the start."""
    checkpoint = make_tiny_checkpoint(tmp_path / "checkpoint", layers=1)
    artifact = make_echo_artifact(tmp_path / "engines/echo", checkpoint)
    add_entry("echo", artifact, tmp_path / "repository", ServingConfig(memory_bytes=1))
    silence = ["--stall-seconds", "8", "--control-seconds", "20", "--probe-seconds", "0.5"]
    server = start_server(tmp_path / "repository", run_dir=tmp_path / "run", extra=silence)
    try:
        server.wait_until(lambda: "refuses requests" in " ".join(server.ready()[1].get("reasons", [])), "the refusal")
        status, body = server.ready()
        assert (status, body["phase"], body["restarts"]) == (503, "ready", 0)
        assert body["reasons"][0].startswith("'echo-generator' refuses requests: memory: the generator holds ")
        plans = [Plan(n, route, {"text_input": "word", "max_tokens": 2}) for n, route in enumerate(ROUTES)]
        for ending in run_load(server.grpc_url, "echo", plans, in_flight=1):
            assert ending.ends == 1
            assert "[UNAVAILABLE memory_pressure] memory: the generator holds" in ending.errors[0]
        assert server.ready()[1]["restarts"] == 0
    finally:
        marker = server.marker
        code = server.stop()
        assert_nothing_remains(marker)
    assert code == 0
