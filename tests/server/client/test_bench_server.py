"""The bench on a real Triton: every route of one server, an open loop with the server's metrics, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.spec import EngineSpec
from server_under_test import ServerUnderTest
from tiny_checkpoint import make_tiny_checkpoint
from triton_llm.cli import main

ROUTES = ("served", "ensemble", "http", "unary", "gateway")


def test_every_route_answers_the_same_load_and_a_report_is_written(artifact: Path, tmp_path: Path) -> None:
    load = ["--in-flight", "1", "4", "--rounds", "2", "--prompt-tokens", "8", "--output-tokens", "5"]
    who = ["--artifact", str(artifact), "--model", "echo", "--subjects", "engine", *ROUTES, "llamacpp"]
    more = ["--scenarios", "--sweep-seconds", "1", "--report", str(tmp_path)]
    assert main(["bench", *who, *load, *more]) == 0
    record = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    assert list(record["absent"]) == ["llamacpp"]
    cells = {(cell["subject"], cell["in_flight"]): cell for cell in record["cells"]}
    assert set(cells) == {(subject, n) for subject in ("engine", *ROUTES) for n in (1, 4)}
    for (subject, n), cell in cells.items():
        assert len(cell["seconds"]) == 2
        for seconds, speed in zip(cell["seconds"], cell["tokens_per_second"], strict=True):
            assert seconds * speed == pytest.approx(max(n, 2) * 5, rel=0.01), f"{subject}: tokens were lost or invented"
    names = {figure["name"] for figure in record["figures"]}
    assert {f"{route} / in-process, 4 in flight, tokens/s" for route in ("served", "ensemble", "gateway")} <= names
    assert {one["name"] for one in record["unmeasured"]} == {
        "served / llama.cpp's server, 16 in flight, tokens/s",
        "served / llama.cpp's server, 1 in flight, tokens/s",
    }
    assert record["sweep"]["measured"][0]["machine"]["output_tokens"] > 0
    assert (tmp_path / "index.html").read_text("utf-8").count("<svg") >= 4


def test_an_open_loop_counts_what_the_server_refuses(
    server: ServerUnderTest, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two run and two wait: of 12 that come within a hundredth of a second most are refused."""
    where = ["--url", server.grpc_url, "--metrics-url", server.metrics_url, "--artifact", str(artifact)]
    load = ["--rate", "1000", "--requests", "12", "--prompt-tokens", "8", "--output-tokens", "20", "--warm-up", "1"]
    assert main(["bench", "load", *where, *load, "--json"]) == 0
    (measured,) = json.loads(capsys.readouterr().out)["measured"]
    answered = measured["requests"] - sum(measured["errors"].values())
    assert set(measured["errors"]) == {"queue_full"}
    assert 2 <= answered < 12
    assert measured["total"]["count"] == answered
    assert measured["machine"]["output_tokens"] == 20 * answered
    assert measured["first_token"]["p50"] >= measured["late"]["p50"]


def test_shipped_prompts_go_over_http_as_text(
    server: ServerUnderTest, artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", server.grpc_url, "--http-url", server.http_url, "--artifact", str(artifact)]
    load = ["--prompts", "shipped", "--requests", "4", "--in-flight", "2", "--output-tokens", "4", "--warm-up", "0"]
    assert main(["bench", "load", "--subject", "http", *where, *load]) == 0
    said = capsys.readouterr().out
    assert "2 in flight: 4 requests" in said
    assert "failed: none" in said
    assert "between tokens" in said


def test_the_profile_s_parts_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = make_tiny_checkpoint(tmp_path / "checkpoint")
    spec = EngineSpec(model=str(checkpoint), name="tiny", quant="int8", check_quality=False)
    real = build(spec, tmp_path / "engines").path
    load = ["--in-flight", "2", "--pairs", "1", "--prompt-tokens", "8", "--output-tokens", "12"]
    capsys.readouterr()
    assert main(["bench", "--profile", "--artifact", str(real), "--model", "tiny", *load]) == 0
    lines = capsys.readouterr().out.splitlines()
    (token, request) = (number for number, line in enumerate(lines) if line.startswith("2 in flight"))
    for block in (lines[token + 1 : request], lines[request + 1 :]):
        *parts, whole = (float(line.partition(" ms")[0].split()[-1]) for line in block)
        assert sum(parts) == pytest.approx(whole, abs=0.01 * len(parts))
        assert whole > 0
    (model,) = (line for line in lines if line.lstrip().startswith("model (infer)"))
    assert float(model.split()[2]) > 0, "the profiler saw the engine's thread"
