"""The six dry runs of the issue, kept as texts and records."""

from __future__ import annotations

import json

import pytest

from tests.unit.build_engines.plan.models import PARAMETERS
from tests.unit.build_engines.tensorrt_llm.goldens import CASES, FOLDER, run_case

_ANEW = "it changed: look at the difference, then run `python -m tests.unit.build_engines.tensorrt_llm.goldens`"


@pytest.mark.parametrize("name", CASES)
def test_a_dry_run_is_as_it_was(name: str) -> None:
    text, record = run_case(name)
    assert text == (FOLDER / f"{name}.txt").read_text("utf-8"), _ANEW
    assert record == json.loads((FOLDER / f"{name}.json").read_text("utf-8")), _ANEW


@pytest.mark.parametrize("name", CASES)
def test_a_golden_is_sound_and_its_weights_are_its_parameters(name: str) -> None:
    """Rank files together: at least the parameters at the format's bits, at most 6 % and the ends more."""
    _, record = run_case(name)
    assert record["sound"]
    assert record["parameters"] == PARAMETERS[CASES[name][0]]
    ranks = [size for file, size in record["files"].items() if file.endswith(".engine")]
    assert len(ranks) == record["world_size"] == record["tp"] * record["pp"]
    bits = {"fp8": 8, "int8_sq": 8, "int8_wo": 8, "int4_awq": 4}[record["quant"]["name"]]
    least = record["parameters"] * bits / 8
    assert least <= sum(ranks) <= least * 1.06 + 8e9
    assert max(ranks) == record["memory"]["weights"]


def test_two_nodes_build_with_the_commands_of_two_gpus() -> None:
    text, record = run_case("llama-3.1-70b-int4_awq-tp2-pp2")
    assert (record["nodes"], record["route"], len(record["steps"])) == (2, "commands", 2)
    assert "4 ranks on 2 nodes of 2" in text
    assert "--workers 2" in text
