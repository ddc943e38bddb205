"""What stands around perf_analyzer: getting it, asking it, reading it; a script plays the tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from python_llm.contract import role_model
from python_llm.errors import CallerMistake, EngineFailure
from server_under_test import free_ports
from triton_llm.cli import main
from triton_llm_client.bench.perf_analyzer import measure, routes
from triton_llm_client.bench.perf_tool import PerfTool, find_or_fetch, requirements

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
HEAD = "Concurrency,Inferences/Second,Response Throughput,p50 latency,p90 latency,p95 latency,p99 latency"


def script(folder: Path, text: str) -> PerfTool:
    tool = PerfTool(folder)
    tool.binary.parent.mkdir(parents=True)
    tool.binary.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    tool.binary.chmod(0o755)
    return tool


def test_the_versions_are_those_of_pyproject() -> None:
    text = PYPROJECT.read_text("utf-8")
    assert len(requirements()) == 2
    for requirement in requirements():
        assert f'"{requirement}"' in text
    assert requirements()[0].startswith("tritonclient==")


def test_each_route_sends_what_its_model_takes() -> None:
    ensemble, generator, unary = routes("m", "127.0.0.1:8001", "http://127.0.0.1:8000")
    assert ensemble.arguments() == ["-m", "m", "-i", "grpc", "-u", "127.0.0.1:8001", "--streaming"]
    assert generator.arguments()[:2] == ["-m", "m-generator"]
    assert unary.arguments() == ["-m", role_model("m", "unary"), "-i", "http", "-u", "127.0.0.1:8000"]
    for route in (ensemble, generator, unary):
        for sent in json.loads(route.data(7))["data"]:
            assert sent["max_tokens"] == [7]
            assert set(sent) <= {row.name for row in route.contract.inputs}
            assert ("stream" in sent) == route.contract.decoupled


def test_a_figure_is_read_from_the_csv(tmp_path: Path) -> None:
    row = "3,2.5,40,1500,1,1,9000"
    line = f'while [ $# -gt 1 ]; do [ "$1" = -f ] && printf "{HEAD}\\n{row}\\n" > "$2"; shift; done'
    route = routes("m", "127.0.0.1:8001", "http://127.0.0.1:8000")[0]
    found = measure(script(tmp_path / "tool", line), route, 3, 4, 8, tmp_path)
    assert (found.requests_per_second, found.responses_per_second, found.milliseconds) == (2.5, 40.0, (1.5, 9.0))
    assert found.file == tmp_path / "m.3.csv"


def test_its_last_words_are_in_the_error(tmp_path: Path) -> None:
    route = routes("m", "127.0.0.1:8001", "http://127.0.0.1:8000")[0]
    tool = script(tmp_path / "tool", "echo 'no such thing' >&2; exit 99")
    with pytest.raises(EngineFailure, match=r"perf_analyzer on 'm': no such thing"):
        measure(tool, route, 1, 4, 8, tmp_path)


def test_without_a_server_one_line_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert main(["bench", "perf-analyzer", "--http-url", f"127.0.0.1:{port}"]) == 1
    said = capsys.readouterr().err
    assert f"server 'http://127.0.0.1:{port}'" in said
    assert "make serve" in said


@pytest.mark.parametrize("option", ["--requests", "--max-tokens", "--in-flight"])
def test_a_load_of_nothing_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "perf-analyzer", option, "0"]) == 2
    assert f"{option} 0: it must be at least 1" in capsys.readouterr().err


def test_without_packages_one_line_says_so_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(CallerMistake, match=r"packages tritonclient==.*No matching distribution.*can be fetched"):
        find_or_fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []
