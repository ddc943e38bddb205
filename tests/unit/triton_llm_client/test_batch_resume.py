"""The verb batch's output: gone on with, asked again, never overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triton_llm.cli import main


def results(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.read_text("utf-8").splitlines()]


def chat(custom_id: str, **body: Any) -> dict[str, Any]:
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}], **body},
    }


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


def test_errors_are_asked_again_in_their_places(
    batch: Callable[..., int], output: Path, triton: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = "error [INTERNAL engine_failed] engine: it broke."
    lines = ["words a", broken, b"{", chat("four", tools=[{}]), "words e"]
    assert batch(lines) == 1
    kept = [output.read_bytes().splitlines()[place] for place in (0, 4)]
    asked = len(triton.requests)
    assert batch(lines, "--resume") == 0  # errors are answers, unless they are asked again
    assert len(triton.requests) == asked
    mended = ["words a", "words b", {"prompt": "words c", "custom_id": "c"}, chat("four"), "words e", "words f"]
    capsys.readouterr()
    assert batch(mended, "--retry-errors", "--json") == 0
    assert [r.get("text", r.get("custom_id")) for r in results(output)] == ["a", "b", "c", "four", "e", "f"]
    assert [result["error"] for result in results(output)] == [None] * 6
    assert [output.read_bytes().splitlines()[place] for place in (0, 4)] == kept
    assert len(triton.requests) == asked + 4
    counts = json.loads(capsys.readouterr().out)
    assert (counts["lines"], counts["answered_before"], counts["answered"], counts["errors"]) == (6, 2, 4, 0)
    assert batch(mended, "--retry-errors") == 0  # nothing left to do
    assert len(triton.requests) == asked + 4


def test_a_retry_that_ends_early_keeps_what_it_has(
    batch: Callable[..., int], output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["words a", *["error [INTERNAL engine_failed] engine: it broke."] * 2, "words d"]
    assert batch(lines) == 1
    lines[1:3] = ["words b", "error [UNAVAILABLE draining] server: it drains."]
    assert batch(lines, "--retry-errors", "--retry-seconds", "0", "--concurrency", "1") == 1
    assert [(r["line"], r["text"]) for r in results(output)] == [(1, "a"), (2, "b"), (3, None), (4, "d")]
    assert "stopped: 4 of 4 lines are in" in capsys.readouterr().err
    lines[2] = "words c"
    assert batch(lines, "--retry-errors") == 0
    assert [r["text"] for r in results(output)] == ["a", "b", "c", "d"]
    assert not output.with_name("out.jsonl.new").exists()


def test_errors_of_another_inputs_output_are_not_asked_again(batch: Callable[..., int], output: Path) -> None:
    assert batch([chat("a", tools=[{}])]) == 2
    kept = output.read_bytes()
    assert batch([chat("b")], "--retry-errors") == 2
    assert output.read_bytes() == kept
