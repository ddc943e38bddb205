"""One request id from the gateway through Triton to the engine: its life is told by that id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, free_ports, start_server
from tiny_checkpoint import make_tiny_checkpoint
from triton_llm.cli import main

PROMPT = "The ferry left the small harbour at six in the morning. " * 20


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[ServerUnderTest, str]]:
    """A server, and the URL of the gateway beside it."""
    checkpoint = make_tiny_checkpoint(tmp_path / "checkpoint")
    built = build(EngineSpec(model=str(checkpoint), name="m", quant="none", check_quality=False), tmp_path / "engines")
    add_entry("m", built.path, tmp_path / "repository", ServingConfig(kv_cache_bytes=1 << 26, max_num_tokens=64))
    (port,) = free_ports(1)
    server = start_server(tmp_path / "repository", run_dir=tmp_path / "run", gateway=port)
    url = f"http://127.0.0.1:{port}"
    try:
        server.wait_until(server.is_ready, "/ready")
        server.wait_until(lambda: _status(f"{url}/health/ready") == 200, "the gateway")
        yield server, url
    finally:
        server.stop()


def _status(url: str) -> int:
    try:
        return httpx.get(url).status_code
    except httpx.HTTPError:
        return 0


def test_the_gateways_id_leads_to_the_engines_events(
    served: tuple[ServerUnderTest, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server, url = served
    body = {"model": "m", "prompt": PROMPT, "max_tokens": 12, "ignore_eos": True, "stream": True}
    answer = httpx.post(f"{url}/v1/completions", json=body, headers={"X-Request-Id": "order-17"}, timeout=120)
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "order-17")

    def told() -> int:
        capsys.readouterr()
        assert main(["trace", "order-17", "--run-dir", str(server.run_dir), "--json"]) == 0
        lives[:] = json.loads(capsys.readouterr().out)
        return lives[0]["ended"] is not None

    lives: list[dict[str, object]] = []
    server.wait_until(told, "the request to have ended at the engine")
    (life,) = lives
    assert (life["model"], life["version"], life["reason"]) == ("m-generator", "1", "length")
    chunks = [span["tokens"] for span in life["spans"]]  # type: ignore[attr-defined]
    assert sum(chunks) == life["prompt_tokens"]
    assert len(chunks) > 1  # of at most 64 tokens
    assert main(["trace", "order-17", "--run-dir", str(server.run_dir)]) == 0
    lines = capsys.readouterr().out
    for part in ("in the queue", "prefill of", "first token", "last of 12 tokens", "responses sent", "ended: length"):
        assert part in lines
    assert PROMPT[:20] not in lines

    assert main(["trace", "never-seen", "--run-dir", str(server.run_dir)]) == 2
    assert "no generator of" in capsys.readouterr().err
    assert main(["trace", "order-17", "--run-dir", str(server.run_dir / "none")]) == 2
    assert "no server's address and secret are there" in capsys.readouterr().err
