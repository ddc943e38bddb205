"""The gateway's page lists the metrics and options that there are."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from openai_gateway.cli import add_arguments
from openai_gateway.metrics import GatewayMetrics

PAGE = (Path(__file__).parents[2] / "docs/gateway.md").read_text("utf-8")


def test_the_table_holds_every_metric_with_its_type() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    found = {}
    for family in GatewayMetrics().registry.collect():
        name = family.name.removeprefix("triton_llm_gateway_")
        found[f"{name}_total" if family.type == "counter" else name] = family.type
    assert {name: kind for name, kind in rows.items() if kind in ("counter", "gauge", "histogram")} == found


def test_the_options_it_names_exist() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    others = {"--no-gateway", "--gateway-port", "--trace-config"}  # of `triton-llm serve`, and of Triton
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)+", PAGE)) <= known | others
