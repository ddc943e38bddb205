"""What the monitoring asks for: its queries, and the metrics that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.monitoring.panels import DASHBOARDS

__all__ = ["RULES", "named_metrics", "panel_queries", "rules"]

RULES = Path(__file__).parents[2] / "deploy" / "monitoring" / "rules"
_METRIC = re.compile(r"\b(?:triton_llm(?:_\w+|(?::\w+)+)|nv_\w+|DCGM_\w+|up|ALERTS)\b")
_OF_PROMETHEUS = {"up", "ALERTS"}


def rules() -> Iterator[dict[str, Any]]:
    """Every rule, recorded and alerting."""
    for file in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            yield from group["rules"]


def panel_queries() -> Iterator[str]:
    """Every query of every dashboard, with Grafana's variable filled in."""
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            yield from (query.expr.replace("$model", ".*") for query in panel.queries)


def named_metrics() -> set[str]:
    """The metrics that must come from some scrape: neither recorded by a rule nor Prometheus' own."""
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    queries = [*panel_queries(), *(rule["expr"] for rule in rules())]
    return {name for query in queries for name in _METRIC.findall(query)} - recorded - _OF_PROMETHEUS
