"""NVIDIA's own perf_analyzer against the served default model, as `make perf-analyzer` runs it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from python_llm.errors import CallerMistake
from server_under_test import ServerUnderTest
from triton_llm.cli import main
from triton_llm_client.bench.perf_tool import PerfTool, find_or_fetch

FOLDER = Path(__file__).parents[3] / ".perf-analyzer"  # as make has it: fetched once


@pytest.fixture(scope="module")
def tool() -> PerfTool:
    try:
        return find_or_fetch(FOLDER)
    except CallerMistake as missing:
        pytest.skip(str(missing))


@pytest.mark.usefixtures("tool")
def test_the_three_routes_of_the_default_model(
    server: ServerUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = ["--grpc-url", server.grpc_url, "--http-url", server.http_url]
    load = ["--requests", "4", "--max-tokens", "8", "--in-flight", "2"]
    where = ["--tool", str(FOLDER), "--output", str(tmp_path / "results")]
    assert main(["bench", "perf-analyzer", "--model", "smollm2", *urls, *load, *where]) == 0
    table = capsys.readouterr().out
    for model in ("smollm2", "smollm2-generator", "smollm2-unary"):
        (row,) = csv.DictReader((tmp_path / "results" / f"{model}.2.csv").read_text("utf-8").splitlines())
        assert row["Concurrency"] == "2"
        assert float(row["Inferences/Second"]) > 0
        assert f"{model} " in table
        if model != "smollm2-unary":  # a stream has more responses than requests
            assert float(row["Response Throughput"]) > float(row["Inferences/Second"])


@pytest.mark.usefixtures("tool")
def test_what_the_server_says_is_passed_on(
    server: ServerUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = ["--grpc-url", server.grpc_url, "--http-url", server.http_url]
    where = ["--tool", str(FOLDER), "--output", str(tmp_path / "results")]
    assert main(["bench", "perf-analyzer", "--max-tokens", "900000", *urls, *where]) == 1
    assert "[INVALID_ARG max_tokens_too_large] max_tokens 900000" in capsys.readouterr().err
    assert not list((tmp_path / "results").iterdir())
