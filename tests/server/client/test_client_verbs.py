"""The client's verbs against a real Triton."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from server_under_test import ServerUnderTest
from triton_llm.cli import main


@pytest.mark.parametrize("wire", ["grpc", "http"])
def test_generate(server: ServerUnderTest, capsys: pytest.CaptureFixture[str], wire: str) -> None:
    url = server.grpc_url if wire == "grpc" else server.http_url
    assert main(["generate", "Tokens go in", "--url", url, "--max-tokens", "6", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert main(["generate", "Tokens go in", "--url", url, "--max-tokens", "6"]) == 0
    assert capsys.readouterr().out == answer["text"] + "\n"
    assert main(["generate", "Tokens go in", "--url", url, "--max-tokens", "0"]) == 2
    assert capsys.readouterr().err.startswith("triton-llm generate: error: [INVALID_ARG max_tokens")


def test_generate_into_a_pipe_that_closes_ends_quietly(server: ServerUnderTest) -> None:
    verb = f"{sys.executable} -m triton_llm.cli generate hello --url {server.grpc_url} --max-tokens 1500"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {verb} | head -c 5"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 5, "")


def test_chat_sends_messages(
    server: ServerUnderTest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("bread\nbeer\n", "utf-8")
    with lines.open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["chat", "--url", server.grpc_url, "--max-tokens", "8"]) == 0
    assert "bread" in capsys.readouterr().out


def test_bench_measures_engine_and_a_server_of_its_own(artifact: Path, tmp_path: Path) -> None:
    options = ["--artifact", str(artifact), "--subjects", "engine", "genai", "served", "--model", "echo"]
    load = ["--in-flight", "1", "4", "--rounds", "2", "--prompt-tokens", "8", "--output-tokens", "5"]
    assert main(["bench", "--quick", *options, *load, "--output", str(tmp_path / "bench.json")]) == 0
    record = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    assert list(record["absent"]) == ["genai"]
    assert {(cell["subject"], cell["in_flight"], len(cell["seconds"])) for cell in record["cells"]} == {
        (subject, in_flight, 2) for subject in ("engine", "served") for in_flight in (1, 4)
    }
    assert "served / in-process, 4 in flight, tokens/s" in {figure["name"] for figure in record["figures"]}
