from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_llm_client.bench.load import Answer, Outcome
from triton_llm_client.bench.report import Report
from triton_llm_client.bench.rounds import Plan, Results
from triton_llm_client.bench.statistics import Interval, median_interval, paired_ratio
from triton_llm_client.bench.targets import Figure, figures, unmeasured

speeds = st.floats(0.1, 1000.0)
pairs = st.lists(st.tuples(speeds, speeds), min_size=1, max_size=12)


@given(pairs)
def test_the_interval_holds_the_value_and_stays_within_the_ratios(measured: list[tuple[float, float]]) -> None:
    above, below = zip(*measured, strict=True)
    found = paired_ratio(above, below)
    ratios = [a / b for a, b in measured]
    assert min(ratios) * (1 - 1e-9) <= found.low <= found.high <= max(ratios) * (1 + 1e-9)
    assert min(ratios) * (1 - 1e-9) <= found.value <= max(ratios) * (1 + 1e-9)


@given(pairs)
def test_swapping_sides_inverts_the_value(measured: list[tuple[float, float]]) -> None:
    above, below = zip(*measured, strict=True)
    assert paired_ratio(above, below).value * paired_ratio(below, above).value == pytest.approx(1.0)


@given(st.lists(speeds, min_size=1, max_size=12), speeds)
def test_a_constant_factor_is_found_whatever_the_rounds_do(below: list[float], factor: float) -> None:
    found = paired_ratio([factor * one for one in below], below)
    for bound in (found.value, found.low, found.high):
        assert bound == pytest.approx(factor)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    from random import Random

    draw = Random(7)
    held = 0
    for seed in range(200):
        ratios = [1.2 * math.exp(draw.gauss(0.0, 0.1)) for _ in range(20)]
        found = paired_ratio(ratios, [1.0] * 20, seed=seed)
        held += found.low <= 1.2 <= found.high
    assert 175 <= held <= 200


@pytest.mark.parametrize(("above", "below"), [([], []), ([1.0], []), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_what_is_no_pair_is_refused(above: list[float], below: list[float]) -> None:
    with pytest.raises(ValueError, match=r"pairs|above zero"):
        paired_ratio(above, below)


def outcome(in_flight: int, speed: float) -> Outcome:
    answers = (Answer(64, 0.1, 1.0),) * in_flight
    return Outcome(64 * in_flight / speed, answers)


def some_results() -> Results:
    found: Results = {}
    for n, engine in ((1, 50.0), (8, 200.0), (16, 300.0)):
        found["engine", n] = [outcome(n, engine), outcome(n, 2 * engine)]
        found["genai", n] = [outcome(n, engine / 1.1), outcome(n, 2 * engine / 1.1)]
        found["served", n] = [outcome(n, engine * 0.9), outcome(n, 2 * engine * 0.9)]
    return found


def test_figures_against_their_targets() -> None:
    found = {figure.name: figure for figure in figures(some_results())}
    assert found["engine / GenAI, 8 in flight, tokens/s"].ratio.value == pytest.approx(1.1)
    assert found["engine / GenAI, 8 in flight, tokens/s"].holds
    assert found["served / in-process, 16 in flight, tokens/s"].ratio.value == pytest.approx(0.9)
    assert not found["served / in-process, 16 in flight, tokens/s"].holds
    assert found["engine: 16 in flight / 1, tokens/s"].ratio.value == pytest.approx(6.0)
    assert found["engine: 8 in flight / 1, wall time"].ratio.value == pytest.approx(2.0)
    assert found["engine: 8 in flight / 1, wall time"].holds


def test_an_absent_subject_gives_no_figure_and_its_reason_is_printed() -> None:
    results = {cell: outcomes for cell, outcomes in some_results().items() if cell[0] != "genai"}
    report = Report(Plan(in_flight=(1, 8, 16)), results, {"engine": "e", "served": "s"}, {"genai": "not installed"})
    assert "genai: absent: not installed" in report.table()
    assert "GenAI, 8" not in report.table()
    assert json.loads(report.to_json())["absent"] == {"genai": "not installed"}


def test_table_and_json_say_the_same() -> None:
    report = Report(Plan(in_flight=(1, 8, 16)), some_results(), {"engine": "e", "genai": "g", "served": "s"})
    record = json.loads(report.to_json())
    assert record["plan"]["in_flight"] == [1, 8, 16]
    table = report.table()
    for figure in record["figures"]:
        line = next(line for line in table.splitlines() if line.startswith(figure["name"]))
        assert f"{figure['ratio']['value']:.3f}" in line
        assert line.endswith("yes" if figure["holds"] else "no")
        assert figure["bound"] in line
    assert "warning" not in table
    assert "warning" in Report(Plan(in_flight=(1,)), some_results(), {"engine": "e"}, idle_cpu=0.5).table()


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=12))
@settings(max_examples=20)
def test_the_interval_of_a_median_holds_it_and_stays_within_the_values(values: list[float]) -> None:
    found = median_interval(values)
    assert min(values) <= found.low <= found.value <= found.high <= max(values)


def test_a_peer_that_ran_fewer_rounds_is_paired_with_the_first_ones() -> None:
    results = some_results()
    results["llamacpp", 1] = [outcome(1, 25.0)]
    found = {figure.name: figure for figure in figures(results)}
    assert found["served / llama.cpp's server, 1 in flight, tokens/s"].ratio.value == pytest.approx(45 / 25)


def test_the_first_token_of_an_idle_server_is_in_milliseconds() -> None:
    found = {figure.name: figure for figure in figures(some_results())}
    figure = found["served: time to first token, idle server"]
    assert figure.ratio.value == pytest.approx(100.0)
    assert (figure.bound, figure.holds) == ("<= 500 ms", True)


def test_a_figure_with_two_bounds() -> None:
    for value, holds in ((0.89, False), (0.95, True), (1.11, False)):
        figure = Figure("x", Interval(value, value, value), 0.9, most=1.1)
        assert (figure.holds, figure.bound) == (holds, "0.9 .. 1.1")


def test_what_an_absent_peer_leaves_open_is_told_and_is_no_loss() -> None:
    results = {cell: outcomes for cell, outcomes in some_results().items() if cell[0] != "genai"}
    open_ones = {one.name: one.reason for one in unmeasured(results, {"genai": "not installed", "llamacpp": "no file"})}
    assert open_ones["engine / GenAI, 16 in flight, tokens/s"] == "not installed"
    assert open_ones["served / llama.cpp's server, 16 in flight, tokens/s"] == "no file"
    assert not set(open_ones) & {figure.name for figure in figures(results)}
