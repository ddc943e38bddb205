"""``triton-llm score`` against a small real gRPC server: lines in, lines out, sums, resumption, errors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from triton_llm.cli import main
from triton_llm_client.score_line import ScoreLine, perplexity


class Scorer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """A text of n characters has n - 1 tokens scored, each of log-prob -1; the text "bad" is refused."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ModelInfer(self, request: Any, context: Any) -> Any:
        (raw,) = request.raw_input_contents
        is_text = request.inputs[0].name == "text_input"
        text = raw[4:].decode() if is_text else "x" * (len(raw) // 4)
        self.asked.append(text)
        if text == "bad":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "[INVALID_ARG request_too_long] row 0: too long.")
        answer = service_pb2.ModelInferResponse(model_name=request.model_name)
        for output in request.outputs:
            answer.outputs.add(name=output.name)
            values = {
                "num_scored": struct.pack("<i", len(text) - 1),
                "sum_log_probs": struct.pack("<f", -(len(text) - 1.0)),
            }
            answer.raw_output_contents.append(values.get(output.name, b""))
        return answer


@pytest.fixture
def scorer() -> Iterator[tuple[Scorer, str]]:
    server, side = grpc.server(ThreadPoolExecutor(4)), Scorer()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(side, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield side, f"127.0.0.1:{port}"
    server.stop(0).wait()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_each_line_is_scored_in_order_and_a_bad_one_is_told(
    scorer: tuple[Scorer, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(
        '"abc"\n{"text": "abcdef", "custom_id": "b"}\n\n{"text": "bad"}\n{"input_ids": [1, 2]}\n{"x": 1}\n'
    )
    assert main(["score", str(source), "--url", scorer[1], "--json"]) == 2
    found = lines(tmp_path / "in.jsonl.scores.jsonl")
    assert [(line["line"], line.get("tokens"), line.get("log_prob")) for line in found] == [
        (1, 2, -2.0),
        (2, 5, -5.0),
        (4, None, None),
        (5, 1, -1.0),
        (6, None, None),
    ]
    assert found[1]["custom_id"] == "b"
    assert [line["error"]["reason"] for line in found if line["error"]] == ["request_too_long", "unknown_key"]
    record = json.loads(capsys.readouterr().out)
    assert (record["scored"], record["errors"], record["tokens"], record["log_prob"]) == (3, 2, 8, -8.0)
    assert record["perplexity"] == pytest.approx(2.718281828)


def test_a_run_goes_on_where_it_stopped(
    scorer: tuple[Scorer, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('"abc"\n"abcd"\n"abcde"\n')
    first = ScoreLine(1, None, "abc")
    output.write_text(json.dumps({"line": first.identity(), "tokens": 2, "log_prob": -2.0, "error": None}) + '\n{"torn')
    assert main(["score", str(source), "-o", str(output), "--url", scorer[1]]) == 2
    assert "it exists; go on with --resume" in capsys.readouterr().err
    assert main(["score", str(source), "-o", str(output), "--url", scorer[1], "--resume"]) == 0
    assert sorted(scorer[0].asked) == ["abcd", "abcde"]
    assert [line["tokens"] for line in lines(output)] == [2, 3, 4]
    assert "3 of 3 lines scored, 0 errors; 9 tokens, log-likelihood -9.00" in capsys.readouterr().out
    source.write_text('{"text": "abc", "custom_id": "other"}\n')
    assert main(["score", str(source), "-o", str(output), "--url", scorer[1], "--resume"]) == 2
    assert "another input's output" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('"abc"\n')
    assert main(["score", str(source), "--url", "127.0.0.1:1", "--retry-seconds", "0"]) == 1
    assert "[UNAVAILABLE unreachable]" in capsys.readouterr().err
    assert main(["score", str(source), "--url", "http://127.0.0.1:1", "--resume"]) == 2
    assert "scheme 'http'; scoring asks over grpc" in capsys.readouterr().err


def test_nothing_has_no_perplexity() -> None:
    assert perplexity(0.0, 0) is None


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (b"[1]", "line: list; it must be a text or an object"),
        (b"{", "it must be one JSON value"),
        (b"{}", "exactly one of text and input_ids"),
        (b'{"text": ""}', "text '': it must be text of at least one character"),
        (b'{"input_ids": [true]}', "input_ids: it must be a list of at least one token id"),
        (b'{"text": "a", "custom_id": 3}', "custom_id 3: it must be text"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_line_with_an_error(raw: bytes, part: str) -> None:
    line = ScoreLine.read(7, raw)
    assert line.number == 7
    assert part in str(line.error)
