"""What dashboards and rules name is what a real server, launcher and gateway have; a real Prometheus draws it."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from build_engines.repository import add_entry
from deploy.monitoring.panels import DASHBOARDS
from deploy.monitoring.report import draw, fetch
from echo_artifact import make_echo_artifact
from prometheus_queries import RULES, named_metrics
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, free_ports, start_server, wait_until
from tests.chart import tools
from tiny_checkpoint import make_tiny_checkpoint

SECONDS = 240.0  # only catches hangs
# Panels whose series are there once a few requests were answered. Others need errors, alerts, tiers or hours.
ALIVE = (
    "Servers that are ready",
    "Requests running",
    "Requests that ended",
    "Steps",
    "Answers of the gateway",
    "Output tokens",
    "KV cache in use",
    "By NVIDIA's names: waiting and scheduled",
    "Dollars an hour",
    "Time to first token",
    "Whole requests",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerUnderTest, str]]:
    """A server that has answered, and its gateway's URL."""
    folder = tmp_path_factory.mktemp("dashboards")
    artifact = make_echo_artifact(folder / "engines" / "m", make_tiny_checkpoint(folder / "checkpoint"))
    add_entry("m", artifact, folder / "repository", ServingConfig(kv_cache_bytes=1 << 20))
    (port,) = free_ports(1)
    server, url = start_server(folder / "repository", run_dir=folder / "run", gateway=port), f"http://127.0.0.1:{port}"
    try:
        server.wait_until(server.is_ready, "/ready")
        server.wait_until(lambda: ask(url) == 200, "an answer of the gateway")
        yield server, url
    finally:
        server.stop()


def ask(url: str) -> int:
    body = {"model": "m", "prompt": "The ferry left the small harbour", "max_tokens": 8}
    try:
        return httpx.post(f"{url}/v1/completions", json=body, timeout=60).status_code
    except httpx.HTTPError:
        return 0


def names(url: str) -> set[str]:
    """The families that a scrape declares, and the series of their histograms."""
    text = httpx.get(url, timeout=30).text
    kinds = [line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE")]
    histograms = {f"{name}_{end}" for name, kind in kinds if kind == "histogram" for end in ("bucket", "count", "sum")}
    return {name for name, _ in kinds} | histograms


def test_every_metric_that_is_named_is_scraped(served: tuple[ServerUnderTest, str]) -> None:
    server, url = served
    scraped = names(server.metrics_url) | names(f"{server.health_url}/metrics") | names(f"{url}/metrics")
    assert {name for name in named_metrics() if not name.startswith("DCGM_")} <= scraped


@contextmanager
def prometheus(folder: Path, targets: dict[str, int]) -> Iterator[str]:
    """One that scrapes each second; its URL."""
    jobs = [{"job_name": n, "static_configs": [{"targets": [f"127.0.0.1:{p}"]}]} for n, p in targets.items()]
    pace = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config = {"global": pace, "rule_files": [f"{RULES}/*.yml"], "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    (port,) = free_ports(1)
    command = [tools.prometheus("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*map(str, command)], stdout=log, stderr=subprocess.STDOUT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def asked(url: str, path: str) -> Any:
    try:
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            return json.load(answer)["data"]
    except OSError:
        return {}


def test_a_real_prometheus_draws_the_panels(served: tuple[ServerUnderTest, str], tmp_path: Path) -> None:
    if not (tools.TOOLS / "prometheus").is_dir():
        pytest.skip("no Prometheus here: python -m tests.chart.tools fetches it")
    server, url = served
    ports = {"triton": server.metrics_port, "launcher": server.health_port, "gateway": int(url.rpartition(":")[2])}
    begin = time.time()
    with prometheus(tmp_path, ports) as source:

        def lines() -> dict[str, Any]:
            """By panel; every query of every panel must be taken."""
            ask(url)
            end = time.time()
            return {p.title: fetch(source, p, begin, end) for dashboard in DASHBOARDS for p in dashboard.panels}

        wait_until(lambda: asked(source, "/api/v1/status/runtimeinfo"), "Prometheus", SECONDS)
        wait_until(lambda: all(lines()[title] for title in ALIVE), "the panels to have series", SECONDS)
        health = {rule["health"] for group in asked(source, "/api/v1/rules")["groups"] for rule in group["rules"]}
        told = lines()
    assert health == {"ok"}
    picture = draw([(dashboard, told) for dashboard in DASHBOARDS], begin, time.time())
    (tmp_path / "report.svg").write_text(picture, "utf-8")
    assert picture.count("<polyline") >= len(ALIVE)
