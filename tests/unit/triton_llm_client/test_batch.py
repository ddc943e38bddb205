"""The verb batch against the scripted Triton: forms, order, errors, resumption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server_under_test import wait_until
from triton_llm.cli import main

WAIT_SECONDS = 60.0  # only catches hangs


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "in.jsonl"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.fixture
def batch(triton: Any, source: Path, output: Path) -> Callable[..., int]:
    """Run the verb on these lines; values become JSON, bytes stay as they are."""

    def run(lines: list[Any], *options: str, url: str | None = None) -> int:
        source.write_bytes(b"".join(_raw(line) + b"\n" for line in lines))
        return main(["batch", str(source), "-o", str(output), "--url", url or triton.grpc_url, *options])

    return run


def _raw(line: Any) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line).encode()


def results(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def chat(custom_id: str, **body: Any) -> dict[str, Any]:
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], **body},
    }


def completion(custom_id: str, **body: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}


def test_texts_and_objects_are_answered_in_order(
    batch: Callable[..., int], output: Path, triton: Any, url: str
) -> None:
    lines = [
        "words a|b",
        {"prompt": "words c", "max_tokens": 5, "custom_id": "x"},
        b"  ",
        {"messages": [{"role": "user"}]},
    ]
    assert batch(lines, url=url) == 0
    first, second, third = results(output)
    assert (first["line"], first["text"], first["finish_reason"], first["output_tokens"]) == (1, "ab", "length", 2)
    assert (second["line"], second["custom_id"], second["text"], second["error"]) == (2, "x", "c", None)
    assert (third["line"], third["text"]) == (4, "ok")  # a blank line is no line
    assert [r["inputs"].get("max_tokens") for r in sorted(triton.requests, key=str)].count(5) == 1


def test_openai_lines_are_answered_in_openais_shape(batch: Callable[..., int], output: Path, triton: Any) -> None:
    lines = [
        chat("one", max_completion_tokens=7, temperature=0.5, stop=["x"], user="u", n=1, stream=False, logprobs=None),
        completion("two", prompt=["words c|d"], max_tokens=2, seed=3, presence_penalty=0),
    ]
    assert batch(lines) == 0
    one, two = results(output)
    assert one["id"].startswith("batch_req_")
    assert (one["custom_id"], one["error"], one["response"]["status_code"]) == ("one", None, 200)
    body = one["response"]["body"]
    assert (body["object"], body["model"]) == ("chat.completion", "smollm2")
    assert body["choices"] == [
        {"index": 0, "logprobs": None, "finish_reason": "length", "message": {"role": "assistant", "content": "ok"}}
    ]
    assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
    assert two["response"]["body"]["choices"][0]["text"] == "cd"
    inputs = {request["inputs"].get("max_tokens"): request["inputs"] for request in triton.requests}
    assert (inputs[7]["temperature"], inputs[7]["stop_words"]) == (0.5, "x")
    assert inputs[2]["seed"] == 3
    assert "presence_penalty" not in inputs[2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "invalid_json"),
        (b"\xff", "invalid_json"),
        (7, "wrong_type"),
        ({}, "one_prompt"),
        ({"prompt": "a", "messages": []}, "one_prompt"),
        ({"prompt": [1, "a"]}, "wrong_type"),
        ({"prompt": []}, "empty_prompt"),
        ({"messages": "hi"}, "wrong_type"),
        ({"prompt": "words a", "max_tokns": 3}, "unknown_parameter"),
        ({"prompt": "words a", "stop": True}, "reserved_parameter"),
        ({"prompt": "words a", "max_tokens": "3"}, "wrong_type"),
        ({"prompt": "words a", "top_p": {"a": 1}}, "wrong_type"),
        ({"prompt": "words a", "model": 3}, "wrong_type"),
        ({"prompt": "words a", "custom_id": 3}, "wrong_type"),
        ({"prompt": "words a", "model": "nobody"}, "unknown_model"),
        ("error [INVALID_ARG max_tokens_too_large] max_tokens 9: too many.", "max_tokens_too_large"),
        ("break [INTERNAL engine_failed] engine: broke.", "engine_failed"),
    ],
)
def test_a_simple_line_that_cannot_be_is_an_error_by_name_and_stops_nothing(
    batch: Callable[..., int], output: Path, capsys: pytest.CaptureFixture[str], line: Any, reason: str
) -> None:
    assert batch([line, "words after"]) == (1 if reason == "engine_failed" else 2)
    refused, after = results(output)
    assert (refused["line"], refused["text"], refused["error"]["reason"]) == (1, None, reason)
    assert after["text"] == "after"
    assert "in.jsonl, line 1: [" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "reason", "name"),
    [
        (chat("x", n=2), "unsupported_parameter", "n 2"),
        (chat("x", stream=True), "unsupported_parameter", "stream True"),
        (chat("x", tools=[{"type": "function"}]), "unsupported_parameter", "tools"),
        (chat("x", response_format={"type": "json_object"}), "unsupported_parameter", "response_format"),
        (chat("x", logit_bias={"1": 2}), "unsupported_parameter", "logit_bias"),
        (chat("x", prompt="hi"), "unknown_parameter", "prompt"),
        (chat("x", max_tokens=1, max_completion_tokens=1), "given_twice", "max_tokens"),
        (chat("x", temprature=1), "unknown_parameter", "temperature"),
        (completion("x", prompt=["a", "b"]), "wrong_type", "prompt"),
        (completion("x"), "one_prompt", "prompt"),
        (chat("x") | {"url": "/v1/embeddings"}, "unknown_url", "/v1/embeddings"),
        (chat("x") | {"method": "GET"}, "unknown_method", "GET"),
        (chat("x") | {"boby": 1}, "unknown_key", "boby"),
        (chat("x") | {"body": 1}, "wrong_type", "body"),
        (chat(""), "missing_custom_id", "custom_id"),
    ],
)
def test_what_an_openai_line_cannot_have_is_an_error_by_name(
    batch: Callable[..., int], output: Path, line: Any, reason: str, name: str
) -> None:
    assert batch([line]) == 2
    (refused,) = results(output)
    assert refused["error"]["code"] == reason
    assert name in refused["error"]["message"]
    assert refused["response"]["status_code"] in (400, 501)
    assert refused["response"]["body"]["error"]["code"] == reason


def test_a_full_queue_is_asked_again(
    batch: Callable[..., int], output: Path, triton: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, refusals = triton.play, iter(["error [UNAVAILABLE queue_full] queue: full."] * 2)

    def full_at_first(request: dict[str, Any]) -> Any:
        command = next(refusals, request["inputs"]["text_input"])
        return play(request | {"inputs": request["inputs"] | {"text_input": command}})

    monkeypatch.setattr(triton, "play", full_at_first)
    assert batch(["words a"]) == 0
    assert results(output)[0]["text"] == "a"
    assert len(triton.requests) == 3


def test_a_queue_that_stays_full_is_that_lines_error(batch: Callable[..., int], output: Path) -> None:
    assert batch(["error [UNAVAILABLE queue_full] queue: full.", "words a"], "--retry-seconds", "0") == 1
    assert [(r["text"], r["error"] and r["error"]["reason"]) for r in results(output)] == [
        (None, "queue_full"),
        ("a", None),
    ]


def test_a_server_that_is_not_there_is_not_waited_for(
    batch: Callable[..., int], output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch(["words a"], url="127.0.0.1:9") == 1
    assert "make serve" in capsys.readouterr().err
    assert output.read_bytes() == b""
    assert batch(["words a"]) == 0  # an output without a line is nothing to overwrite


def test_a_server_that_stays_away_stops_the_batch_and_resume_goes_on(
    batch: Callable[..., int], output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["words a", "error [UNAVAILABLE draining] server: it drains.", "words c"]
    assert batch(lines, "--retry-seconds", "0", "--concurrency", "1") == 1
    assert [r["text"] for r in results(output)] == ["a"]
    assert "1 of 3 lines are in" in (said := capsys.readouterr().err)
    assert "[UNAVAILABLE draining]" in said
    lines[1] = "words b"
    assert batch(lines, "--resume", "--json") == 0
    assert [r["text"] for r in results(output)] == ["a", "b", "c"]
    counts = json.loads(capsys.readouterr().out)
    assert (counts["lines"], counts["answered_before"], counts["answered"], counts["errors"]) == (3, 1, 2, 0)


@pytest.mark.parametrize("torn", [b"", b'{"line": 2, "te', b'{"line": 2, "text": "b", "error": null}'])
def test_resume_repairs_a_torn_line(batch: Callable[..., int], output: Path, triton: Any, torn: bytes) -> None:
    lines = ["words a", "words b", chat("three")]
    assert batch(lines[:1]) == 0
    output.write_bytes(output.read_bytes() + torn)
    assert batch(lines, "--resume") == 0
    assert batch(lines, "--resume") == 0  # nothing left to do
    assert [r.get("text", r.get("custom_id")) for r in results(output)] == ["a", "b", "three"]
    assert len(triton.requests) == 3


def test_an_output_is_not_overwritten_and_not_taken_for_another_inputs(
    batch: Callable[..., int], output: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch([chat("a"), chat("b")]) == 0
    kept = output.read_bytes()
    for lines, options, said in (
        ([chat("a"), chat("b")], (), "--resume"),
        ([chat("a"), chat("c")], ("--resume",), "output line 2 answers 'b', and the input has 'c' there"),
        ([chat("a")], ("--resume",), "the input has nothing there"),
    ):
        assert batch(lines, *options) == 2
        assert said in capsys.readouterr().err
    assert output.read_bytes() == kept
    output.write_text("a note of mine\n")
    assert batch([chat("a")], "--resume") == 2
    assert output.read_text() == "a note of mine\n"
    assert main(["batch", str(source), "-o", str(source)]) == 2


def test_files_that_cannot_be_used(
    batch: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["batch", str(tmp_path / "none"), "-o", str(tmp_path / "out")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert batch([], "--concurrency", "0") == 2
    assert batch([]) == 0  # nothing to do is done
    assert main(["batch", str(tmp_path / "in.jsonl"), "-o", str(tmp_path)]) == 2


def test_ctrl_c_cancels_what_runs_and_keeps_what_is_done(triton: Any, source: Path, output: Path) -> None:
    source.write_text('"words a"\n"endless"\n"words c"\n')
    where = ["--url", triton.grpc_url]
    command = [sys.executable, "-m", "triton_llm.cli", "batch", str(source), "-o", str(output), *where]

    def first_answer_is_in() -> bool:
        assert process.poll() is None
        return output.exists() and output.read_bytes().endswith(b"\n") and len(triton.requests) == 3

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(first_answer_is_in, "the first answer", WAIT_SECONDS)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=WAIT_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "stopped: 1 of 3 lines are in" in said
    assert "Traceback" not in said
    assert triton.left.wait(WAIT_SECONDS)
    assert [r["text"] for r in results(output)] == ["a"]
