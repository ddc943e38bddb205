"""Rules and dashboards before Prometheus' own tool: they parse, each alert fires and clears, each metric exists."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.monitoring.grafana_files import FOLDER, render
from deploy.monitoring.panels import DASHBOARDS, Dashboard
from deploy.monitoring.report import Line, draw
from prometheus_queries import RULES, named_metrics, panel_queries, rules
from python_llm.metrics import FAMILIES
from tests.chart import tools

HERE = Path(__file__).parent / "monitoring"
TESTS = sorted(HERE.glob("*_test.yml"))


def promtool(*arguments: object) -> str:
    done = subprocess.run([tools.prometheus("promtool"), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid() -> None:
    promtool("check", "rules", *sorted(RULES.glob("*.yml")))


def test_the_configuration_is_valid() -> None:
    promtool("check", "config", "--syntax-only", RULES.parent / "prometheus.yml")


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_alerts_fire_and_clear(file: Path) -> None:
    promtool("test", "rules", file)


def test_every_alert_is_seen_to_fire_and_to_be_silent() -> None:
    seen: dict[str, set[bool]] = {}
    for file in TESTS:
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]:
            for row in test["alert_rule_test"]:
                seen.setdefault(row["alertname"], set()).add(bool(row["exp_alerts"]))
    assert seen == {rule["alert"]: {True, False} for rule in rules() if "alert" in rule}


def test_every_alert_says_what_and_what_next() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["next"]
            assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_panels_query_parses(tmp_path: Path) -> None:
    """As rules, which the tool parses with Prometheus' own parser."""
    found = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(panel_queries())]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}), "utf-8")
    assert f"{len(found)} rules found" in promtool("check", "rules", file)


def test_a_query_that_does_not_parse_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "broken.yml"
    rule = {"record": "a:b", "expr": "sum by (le rate(x[5m]))"}
    file.write_text(yaml.safe_dump({"groups": [{"name": "broken", "rules": [rule]}]}), "utf-8")
    with pytest.raises(AssertionError, match="could not parse expression"):
        promtool("check", "rules", file)


def test_metrics_of_the_generator_and_of_gpus_exist() -> None:
    """The launcher's and the gateway's are held to a real scrape in tests/server/metrics."""
    suffixes = ("", "_bucket", "_count", "_sum")
    known = {f"{row.name}{suffix}" for row in FAMILIES for suffix in suffixes}
    known |= {line.partition("{")[0] for line in (HERE / "dcgm.prom").read_text("utf-8").splitlines()}
    elsewhere = ("triton_llm_launcher_", "triton_llm_gateway_")
    assert {name for name in named_metrics() if not name.startswith(elsewhere)} <= known


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_the_dashboards_files_are_what_the_table_makes(dashboard: Dashboard) -> None:
    text = (FOLDER / f"{dashboard.uid}.json").read_text("utf-8")
    assert text == render(dashboard), "run: python -m deploy.monitoring.grafana_files"
    told: dict[str, Any] = json.loads(text)
    assert [panel["title"] for panel in told["panels"]] == [panel.title for panel in dashboard.panels]


def test_no_other_dashboard_lies_there() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == {dashboard.uid for dashboard in DASHBOARDS}


def test_a_picture_has_every_panel_and_its_lines() -> None:
    (operator, *_) = DASHBOARDS
    title = operator.panels[3].title
    text = draw([(operator, {title: [Line("m:1 <b>", ((0.0, 1.0), (60.0, 2.0)))]})], 0.0, 60.0)
    assert text.count("<polyline") == 1
    assert text.count("no series") == len(operator.panels) - 1
    assert "m:1 &lt;b&gt;" in text
