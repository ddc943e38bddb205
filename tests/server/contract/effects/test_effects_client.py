"""What the client and its verbs make of it, over every wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server_under_test import ServerUnderTest
from triton_llm.cli import main
from triton_llm_client import Client, Completion, GenerateParams

TEXT = "The ferry left the small harbour"
EVERYTHING: dict[str, Any] = {
    "max_tokens": 6,
    "ignore_eos": True,
    "temperature": 1.0,
    "seed": 5,
    "num_return_sequences": 3,
    "return_log_probs": True,
    "top_log_probs": 2,
    "return_prompt_log_probs": True,
    "return_stop_reason": True,
    "return_perf_metrics": True,
    "stop_token_ids": [500, 501],
}


def told(answer: Completion) -> Any:
    """All but what differs from one request to the next."""
    rounded = [[round(value, 3) for value in choice.log_probs] for choice in answer.choices]
    tops = [[[one.id for one in top] for top in choice.top_log_probs] for choice in answer.choices]
    said = [(c.index, c.text, c.output_ids, c.finish_reason, c.stop_reason, c.output_tokens) for c in answer.choices]
    prompt = [round(value, 3) for value in answer.prompt_log_probs]
    return said, rounded, tops, prompt, len(answer.prompt_top_log_probs), answer.input_tokens, answer.seed


def ignore(_: object) -> None:
    """Streams."""


@pytest.fixture(scope="module")
def expected(server: ServerUnderTest) -> Any:
    with Client(server.grpc_url, model="tiny") as client:
        return told(client.generate(TEXT, GenerateParams(**EVERYTHING)))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("wire", ["grpc", "http"])
def test_one_answer_over_every_route(
    server: ServerUnderTest, expected: Any, wire: str, ensemble: bool, streams: bool
) -> None:
    url = server.grpc_url if wire == "grpc" else server.http_url
    with Client(url, model="tiny", ensemble=ensemble) as client:
        answer = client.generate(TEXT, GenerateParams(**EVERYTHING), on_chunk=ignore if streams else None)
    assert told(answer) == expected
    assert [len(choice.log_probs) for choice in answer.choices] == [choice.output_tokens for choice in answer.choices]
    assert answer.metrics is not None
    assert answer.metrics.arrival_time_ns > 0


@pytest.mark.parametrize("wire", ["grpc", "http"])
def test_beams_over_both_wires(server: ServerUnderTest, wire: str) -> None:
    url = server.grpc_url if wire == "grpc" else server.http_url
    with Client(url, model="tiny") as client:
        answer = client.generate(TEXT, GenerateParams(max_tokens=6, beam_width=3, return_log_probs=True))
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [len(choice.output_ids) for choice in answer.choices] == [len(choice.log_probs) for choice in answer.choices]


def test_generate_prints_everything_as_json(served: ServerUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--n", "2", "--temperature", "1", "--seed", "3", "--logprobs", "2", "--prompt-logprobs", "--metrics"]
    where = ["--url", served.grpc_url, "--max-tokens", "5", "--ignore-eos"]
    assert main(["generate", "Once upon a time", *where, *flags, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [choice["output_tokens"] for choice in answer["choices"]] == [5, 5]
    assert [len(top) for top in answer["choices"][1]["top_log_probs"]] == [2] * 5
    assert len(answer["prompt_log_probs"]) == answer["input_tokens"] - 1
    assert answer["seed"] == 3
    assert answer["metrics"]["last_token_time_ns"] > answer["metrics"]["arrival_time_ns"]
    assert main(["generate", "Once upon a time", *where, "--beams", "2"]) == 0
    assert [line[:4] for line in capsys.readouterr().out.splitlines() if line.startswith("[")] == ["[0] ", "[1] "]


def test_openai_lines_are_answered_in_openais_shapes(served: ServerUnderTest, tmp_path: Path) -> None:
    message = [{"role": "user", "content": [{"type": "text", "text": "Name a city as JSON."}]}]
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}
    told_format = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    chat = {"messages": message, "max_tokens": 8, "n": 2, "temperature": 1, "seed": 5}
    bodies = [
        ("chat", {**chat, "logprobs": True, "top_logprobs": 2}),
        ("chat", {"messages": message, "max_tokens": 64, "response_format": told_format}),
        ("", {"prompt": "The capital of France is", "max_tokens": 4, "logprobs": 1, "logit_bias": {"7042": -100}}),
        ("chat", {"messages": message, "tools": [{"type": "function"}]}),
    ]
    lines = [
        {"custom_id": str(n), "method": "POST", "url": f"/v1/{'chat/' if kind else ''}completions", "body": body}
        for n, (kind, body) in enumerate(bodies)
    ]
    (tmp_path / "in").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    files = [str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    assert main(["batch", *files, "--url", served.grpc_url]) == 2
    answers = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    several, guided, plain = (answer["response"]["body"] for answer in answers[:3])
    assert [choice["index"] for choice in several["choices"]] == [0, 1]
    content = several["choices"][1]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == several["choices"][1]["message"]["content"]
    assert [len(entry["top_logprobs"]) for entry in content] == [2] * len(content)
    assert several["usage"]["completion_tokens"] == sum(len(c["logprobs"]["content"]) for c in several["choices"])
    assert set(json.loads(guided["choices"][0]["message"]["content"])) >= {"city"}
    assert "".join(plain["choices"][0]["logprobs"]["tokens"]) == plain["choices"][0]["text"]
    assert " Paris" not in plain["choices"][0]["logprobs"]["tokens"]
    assert (answers[3]["error"]["code"], "tools" in answers[3]["error"]["message"]) == ("unsupported_parameter", True)
