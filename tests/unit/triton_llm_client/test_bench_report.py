"""The files of a report, what two of them say of each other, and rounds in which not everybody takes part."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from python_llm.errors import CallerMistake, EngineFailure
from triton_llm.cli import main
from triton_llm_client.bench.compare import changes
from triton_llm_client.bench.files import read_record, write_report
from triton_llm_client.bench.latency import Slo, figures_of
from triton_llm_client.bench.load import Answer, Load, Outcome
from triton_llm_client.bench.plots import PLOTS, draw
from triton_llm_client.bench.report import Report, Sweep
from triton_llm_client.bench.rounds import Plan, Results, run_rounds
from triton_llm_client.bench.runs import Measured
from triton_llm_client.bench.targets import Unmeasured


def outcome(in_flight: int, speed: float) -> Outcome:
    answers = tuple(Answer(64, 0.1 + n / 1000, 1.0, (0.01,) * 63) for n in range(in_flight))
    return Outcome(64 * in_flight / speed, answers)


def report(faster: float = 1.0) -> Report:
    results: Results = {}
    for n in (1, 8):
        for subject, speed in (("engine", 50.0), ("served", 45.0 * faster)):
            results[subject, n] = [outcome(n, n * speed * (1 + 0.01 * number)) for number in range(5)]
    rates = tuple(
        Measured(rate, 4, figures_of(Outcome(2.0, (Answer(4, rate / 10, rate),)), Slo(first=1.0)), {})
        for rate in (1.0, 2.0)
    )
    return Report(
        Plan(in_flight=(1, 8), vocabulary=tuple(range(300))),
        results,
        {"engine": "e <b>", "served": "s"},
        {"genai": "not installed"},
        unmeasured=(Unmeasured("GenAI & co", "not installed"),),
        sweep=Sweep("served", Slo(first=1.0), rates),
        price_per_hour=0.1,
        seconds=12.0,
    )


class _Balance(HTMLParser):
    """Tables must close what they open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("table", "tr", "td", "th", "figure", "h2", "style"):
            self.open.append(tag)
            self.tables += tag == "table"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("table", "tr", "td", "th", "figure", "h2", "style"):
            assert self.open.pop() == tag


def test_a_report_is_json_csv_html_and_plots(tmp_path: Path) -> None:
    record = report().record()
    page = write_report(record, tmp_path)
    assert read_record(tmp_path / "bench.json") == json.loads(json.dumps(record))
    for name in PLOTS:
        assert ElementTree.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")
    rows = list(csv.DictReader((tmp_path / "cells.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 4 * 5
    assert float(rows[0]["tokens_per_second"]) == pytest.approx(50.0)
    assert float(rows[0]["gap_median"]) == pytest.approx(0.01)
    figures = list(csv.DictReader((tmp_path / "figures.csv").read_text("utf-8").splitlines()))
    assert figures[-1]["holds"] == "not measured: not installed"
    text = page.read_text("utf-8")
    balance = _Balance()
    balance.feed(text)
    assert balance.open == []
    assert balance.tables >= 5
    assert text.count("<svg") == len(PLOTS)
    assert "e &lt;b&gt;" in text
    assert "GenAI &amp; co" in text
    assert 'class="no"' in text, "served / in-process is 0.9 and wants 0.95"


def test_a_plot_is_the_same_again() -> None:
    """So that pictures in docs change only with their figures."""
    record = {**report().record(), "cells": [], "price_per_hour": 0}
    assert set(draw(record)) == {"latency"}, "what there are no figures for is not drawn"
    assert draw(record) == draw(record)


def test_what_changed_is_told_from_noise() -> None:
    found = {one.name: one for one in changes(report().record(), report(faster=1.2).record())}
    served = found["served, 8 in flight: tokens/s"]
    assert served.ratio.value == pytest.approx(1.2, rel=1e-3)
    assert served.verdict == "better"
    assert found["engine, 8 in flight: tokens/s"].verdict == "no change beyond noise"
    assert found["served / in-process, 8 in flight, tokens/s"].ratio.value == pytest.approx(1.2, rel=1e-3)
    back = {one.name: one for one in changes(report(faster=1.2).record(), report().record())}
    assert back["served, 8 in flight: tokens/s"].verdict == "worse"


def test_compare_prints_every_change_and_refuses_what_is_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / name / "bench.json") for name in ("a", "b")]
    for name, faster in (("a", 1.0), ("b", 0.5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bench.json").write_text(report(faster).to_json())
    assert main(["bench", "compare", *files]) == 0
    line = next(
        text for text in capsys.readouterr().out.splitlines() if text.startswith("served, 1 in flight: tokens/s")
    )
    assert "0.500" in line
    assert line.endswith("worse")
    assert main(["bench", "compare", files[0], str(tmp_path / "nowhere")]) == 2
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(CallerMistake, match="schema 2"):
        read_record(tmp_path / "other.json")


class Recorder:
    flags = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loads: list[Load] = []

    def run(self, load: Load) -> Outcome:
        self.loads.append(load)
        return Outcome(1.0, (Answer(load.output_tokens, 0.1, 1.0),) * len(load.prompts))

    def close(self) -> None: ...


def test_a_slow_peer_takes_part_in_fewer_rounds_and_levels() -> None:
    fast, slow = Recorder("fast"), Recorder("slow")
    plan = Plan(in_flight=(1, 4), rounds=3, least_rounds=3, levels={"slow": (4,)}, most_rounds={"slow": 1})
    results = run_rounds([fast, slow], plan, lambda _: None)
    assert {cell: len(outcomes) for cell, outcomes in results.items()} == {
        ("fast", 1): 3,
        ("fast", 4): 3,
        ("slow", 4): 1,
    }


class Breaking(Recorder):
    """Fails from the second load on; the first is the warm-up."""

    def run(self, load: Load) -> Outcome:
        outcome = super().run(load)
        if len(self.loads) > 2:
            raise EngineFailure("broken", "peer: it broke.")
        return outcome


def test_a_peer_that_fails_leaves_and_the_others_go_on() -> None:
    ours, peer, gone = Recorder("engine"), Breaking("peer"), dict[str, str]()
    plan = Plan(in_flight=(1, 4), rounds=3, least_rounds=3, peers=frozenset({"peer"}))
    results = run_rounds([ours, peer], plan, lambda _: None, gone)
    assert {cell: len(outcomes) for cell, outcomes in results.items()} == {
        ("engine", 1): 3,
        ("engine", 4): 3,
        ("peer", 1): 1,
    }
    assert gone == {"peer": "left in round 1, 4 in flight: [INTERNAL broken] peer: it broke."}
    assert len(peer.loads) == 3, "it is asked no more"
    with pytest.raises(EngineFailure, match="it broke"):
        run_rounds([Breaking("engine")], plan, lambda _: None)


def test_routes_of_one_server_do_not_warm_its_prefix_cache_for_each_other() -> None:
    one, other = Recorder("served"), Recorder("ensemble")
    run_rounds([one, other], Plan(in_flight=(2,), rounds=2, apart=frozenset({"ensemble"})), lambda _: None)
    prompts = [prompt for load in one.loads[1:] + other.loads[1:] for prompt in load.prompts]
    assert len(set(prompts)) == len(prompts) == 8
