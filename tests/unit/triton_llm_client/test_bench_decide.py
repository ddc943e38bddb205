"""The decision: scores from records and from judgements, the ranking, and how firm it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from python_llm.errors import CallerMistake
from triton_llm.cli import main
from triton_llm_client.bench.decision.judged import SHIPPED, read_judged
from triton_llm_client.bench.decision.matrix import CRITERIA, Candidate, rank, tipping_weights, winners
from triton_llm_client.bench.decision.measured import candidates_of

WEIGHTS = {"performance": 35.0, "cost": 25.0, "ease": 20.0, "extensibility": 15.0, "ecosystem": 5.0}


def cell(subject: str, in_flight: int, speed: float, first: float) -> dict[str, Any]:
    return {"subject": subject, "in_flight": in_flight, "tokens_per_second": [speed] * 3, "ttft_median": [first] * 3}


def record(*cells: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema": 2, "kind": "bench", "cells": list(cells), "absent": {}, "price_per_hour": 0.36, **more}


RECORD = record(
    cell("served", 1, 50.0, 0.2),
    cell("served", 16, 200.0, 0.5),
    cell("served", 32, 400.0, 0.5),
    cell("llamacpp", 1, 25.0, 0.1),
    cell("llamacpp", 16, 50.0, 2.0),
    absent={"genai": "not installed"},
)


def test_the_shipped_file_has_the_design_s_weights_and_a_reason_for_every_judgement() -> None:
    weights, judged = read_judged(SHIPPED)
    assert weights == WEIGHTS
    assert {one.subject for one in judged} == {"served", "llamacpp", "genai", "transformers"}
    assert all(opinion.reason for one in judged for opinion in one.opinions.values())


def test_scores_come_from_the_record() -> None:
    _, judged = read_judged(SHIPPED)
    found, missing = candidates_of(judged, [RECORD])
    ours, theirs = found
    assert ours.scores["performance"] == pytest.approx(5 * 1.0 + 5 * 0.5), "fastest, first token twice as late"
    assert theirs.scores["performance"] == pytest.approx(5 * (0.5 * 0.25) ** 0.5 + 5 * 1.0)
    assert ours.scores["cost"] == 10.0
    assert theirs.scores["cost"] == pytest.approx(10 * 50 / 400), "each at its best level"
    assert ours.why["cost"] == "0.25 a million tokens"
    assert "50 at 1, 200 at 16" in ours.why["performance"]
    assert missing == {"OpenVINO GenAI": "not installed", "transformers": "no record measured 'transformers'"}


def test_a_later_record_counts_for_what_it_measured() -> None:
    _, judged = read_judged(SHIPPED)
    later = record(cell("llamacpp", 16, 200.0, 0.5))
    theirs = candidates_of(judged, [RECORD, later])[0][1]
    assert theirs.scores["performance"] == pytest.approx(5 * 0.5**0.5 + 5)


scores = st.fixed_dictionaries({name: st.floats(0, 10) for name in CRITERIA})


@given(st.lists(scores, min_size=2, max_size=5))
def test_who_is_better_in_everything_is_first_whatever_the_weights(drawn: list[dict[str, float]]) -> None:
    others = [Candidate(f"c{number}", each, {}) for number, each in enumerate(drawn)]
    best = Candidate("best", {name: max(each[name] for each in drawn) + 1 for name in CRITERIA}, {})
    assert rank([*others, best], WEIGHTS)[0].candidate is best
    for turns in tipping_weights([*others, best], WEIGHTS).values():
        assert turns == [(0, "best")]


def test_where_the_winner_changes_is_found() -> None:
    """a leads by 4 in performance, b by 4 in ease, which weigh the same in the rest: equal at 50 %."""
    even = dict.fromkeys(CRITERIA, 5.0)
    a = Candidate("a", {**even, "performance": 9.0}, {})
    b = Candidate("b", {**even, "ease": 9.0}, {})
    weights = {**dict.fromkeys(CRITERIA, 0.0), "performance": 60.0, "ease": 40.0}
    assert tipping_weights([a, b], weights)["ease"] == [(0, "a"), (51, "b")]
    assert winners([a, b])["a"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": {"performance": 1}}, "cost, ease"),
        ({"weights": {**WEIGHTS, "cots": 1}}, "did you mean 'cost'"),
        ({"weights": dict.fromkeys(WEIGHTS, 0)}, "one above it"),
        ({"candidates": {"x": {"subject": "served"}}}, "must be a mapping"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_a_file_that_is_not_right_is_refused_by_name(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "judged.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(SHIPPED.read_text("utf-8")), **change}), "utf-8")
    with pytest.raises(CallerMistake, match=said):
        read_judged(file)


@pytest.mark.parametrize(("opinion", "said"), [({"score": 11, "reason": "r"}, "0 to 10"), ({"score": 5}, "no reason")])
def test_a_judgement_needs_a_score_and_a_reason(opinion: dict[str, Any], said: str, tmp_path: Path) -> None:
    whole = yaml.safe_load(SHIPPED.read_text("utf-8"))
    whole["candidates"]["triton-llm"]["ease"] = opinion
    file = tmp_path / "judged.yaml"
    file.write_text(yaml.safe_dump(whole), "utf-8")
    with pytest.raises(CallerMistake, match=f"'triton-llm', ease.*{said}"):
        read_judged(file)


def test_the_verb_prints_a_ranking_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "bench.json", tmp_path / "ranking.svg"
    file.write_text(json.dumps(RECORD))
    assert main(["decide", str(file), "--chart", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "OpenVINO GenAI         not ranked: not installed" in said
    assert "1   triton-llm" in said
    assert "with any weights at all" in said
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert main(["decide", str(file), "--json", "--weights", "ecosystem=1000"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ranking"][0]["name"] == "llama.cpp server"
    assert told["weights"]["ecosystem"] == 1000
    assert main(["decide", str(file), "--weights", "eese=1"]) == 2
    assert "did you mean 'ease'" in capsys.readouterr().err


def test_nothing_to_rank_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(record()))
    assert main(["decide", str(file)]) == 2
    assert "no record measured 'served'" in capsys.readouterr().err
