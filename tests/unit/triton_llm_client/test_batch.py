"""The verb batch against the scripted Triton: forms, order, errors."""

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

WAIT_SECONDS = 60.0  # only catches hangs


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
    assert inputs[2]["presence_penalty"] == 0


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
        (chat("x", best_of=2), "unsupported_parameter", "best_of 2"),
        (chat("x", echo=True), "unsupported_parameter", "echo True"),
        (chat("x", stream=True), "unsupported_parameter", "stream True"),
        (chat("x", tools=[{"type": "function"}]), "unsupported_parameter", "tools"),
        (chat("x", functions=[{"name": "f"}]), "unsupported_parameter", "functions"),
        (chat("x", response_format={"type": "xml"}), "unsupported_parameter", "response_format"),
        (chat("x", response_format="json"), "unsupported_parameter", "response_format"),
        (chat("x", response_format={"type": "json_schema"}), "wrong_type", "response_format.json_schema.schema"),
        (chat("x", logprobs=2), "wrong_type", "logprobs 2"),
        (chat("x", logit_bias=[[1]]), "wrong_type", "logit_bias"),
        (chat("x", n=2, num_return_sequences=2), "given_twice", "num_return_sequences"),
        (chat("x", stop="a", stop_words=["a"]), "given_twice", "stop_words"),
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
