"""``triton-llm batch`` against a real Triton that runs two requests and lets two wait."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from server_under_test import ServerUnderTest
from triton_llm.cli import main
from triton_llm_client import Client, GenerateParams

PROMPTS = [f"Tokens go in, line {number}" for number in range(20)]


def run_batch(server: ServerUnderTest, folder: Path, lines: list[Any], *options: str, url: str = "") -> int:
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    files = [str(folder / "in.jsonl"), "-o", str(folder / "out.jsonl")]
    return main(["batch", *files, "--url", url or server.grpc_url, *options])


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]


def test_more_requests_than_the_queue_holds_are_all_answered_in_order(
    server: ServerUnderTest, url: str, tmp_path: Path
) -> None:
    with Client(url) as client:
        expected = [client.generate(prompt, GenerateParams(max_tokens=9)).text for prompt in PROMPTS]
    lines = [{"prompt": prompt, "max_tokens": 9} for prompt in PROMPTS]
    assert run_batch(server, tmp_path, lines, url=url) == 0
    assert [result["text"] for result in results(tmp_path)] == expected


def test_openai_lines_errors_and_the_ensemble(
    server: ServerUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = {"role": "user", "content": "bread"}
    body = {"model": "smollm2", "messages": [message], "max_tokens": 8}
    bodies = [body, body | {"max_tokens": 10**6}, body | {"model": "nobody"}, body | {"tools": [{"type": "function"}]}]
    lines = [
        {"custom_id": str(n), "method": "POST", "url": "/v1/chat/completions", "body": one}
        for n, one in enumerate(bodies)
    ]
    with Client(server.grpc_url) as client:
        expected = client.generate([message], GenerateParams(max_tokens=8))
    for options in ((), ("--ensemble",)):
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        assert run_batch(server, tmp_path, lines, *options) == 2
        good, *bad = results(tmp_path)
        answer = good["response"]["body"]
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": expected.text}
        assert answer["usage"]["prompt_tokens"] == expected.input_tokens
        codes = ["max_tokens_too_large", "unknown_model", "unsupported_parameter"]
        assert [result["error"]["code"] for result in bad] == codes
        assert [result["response"]["status_code"] for result in bad] == [400, 404, 501]
    assert "in.jsonl, line 4: [UNSUPPORTED unsupported_parameter] tools" in capsys.readouterr().err


def test_a_batch_outlives_a_restart_of_the_server(server: ServerUnderTest, tmp_path: Path) -> None:
    first = server.tritonserver()
    lines = [{"prompt": prompt, "max_tokens": 40} for prompt in PROMPTS]
    codes: list[int] = []
    run = threading.Thread(target=lambda: codes.append(run_batch(server, tmp_path, lines, "--concurrency", "4")))
    run.start()
    output = tmp_path / "out.jsonl"
    server.wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") >= 4, "four answers")
    os.kill(first, signal.SIGKILL)
    run.join(120.0)
    server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
    assert codes == [0]
    assert [(r["line"], r["output_tokens"], r["error"]) for r in results(tmp_path)] == [
        (number, 40, None) for number in range(1, len(lines) + 1)
    ]
