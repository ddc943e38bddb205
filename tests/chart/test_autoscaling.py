"""One block, two kinds; and what they would do, simulated from what is rendered."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from deploy.autoscaling.controller import Controller
from deploy.autoscaling.fleet import Fleet, Server
from deploy.autoscaling.loads import HOURS, LOADS
from deploy.autoscaling.settings import Policy, Settings
from deploy.autoscaling.simulate import Run, simulate
from tests.chart.render import render

KINDS = {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}
GOAL = 500
TURNS = {"step": 1, "spike": 1, "diurnal": 3}  # up and down, once for each time that the load does


def settings(kind: str, **values: Any) -> Settings:
    block = {"kind": kind, "maxReplicas": 1000, "tokensPerSecond": GOAL, **values}
    return Settings.of(render({"modelDefaults": {"autoscaling": block}}).one(KINDS[kind]))


@cache
def run(load: str) -> Run:
    return simulate(settings("hpa"), LOADS[load], HOURS[load] * 3600)


def test_nothing_is_rendered_where_it_is_off() -> None:
    rendered = render()
    assert not rendered.of("HorizontalPodAutoscaler")
    assert not rendered.of("ScaledObject")
    assert "replicas" in rendered.one("Deployment", "smollm2")["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_is_rendered_and_the_replicas_are_its_own(kind: str) -> None:
    rendered = render({"modelDefaults": {"autoscaling": {"kind": kind}}})
    assert {each["kind"] for each in rendered} & set(KINDS.values()) == {KINDS[kind]}
    server = rendered.one("Deployment", "smollm2")
    assert "replicas" not in server["spec"]
    target = rendered.one(KINDS[kind])["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (server["kind"], server["metadata"]["name"])


def test_both_kinds_mean_the_same() -> None:
    assert settings("hpa") == settings("keda")


def test_gpu_utilisation_alone_decides_nothing() -> None:
    assert set(settings("hpa", tokensPerSecond=0, kvFraction=0).targets) == {"waiting"}
    rendered = render({"modelDefaults": {"autoscaling": {"kind": "keda", "ttftSeconds": 2.5}}})
    triggers = {each["name"]: each for each in rendered.one("ScaledObject")["spec"]["triggers"]}
    assert set(triggers) == {"waiting", "kv", "ttft"}
    assert triggers["ttft"]["metadata"]["threshold"] == "2.5"
    assert "gpu" not in str(triggers).lower()


def test_a_group_of_several_nodes_is_scaled_as_a_whole() -> None:
    nodes = {"enabled": True, "sshSecretName": "s"}
    model = {"name": "m", "engine": "tensorrt_llm", "tp": 16, "multiNode": nodes, "autoscaling": {"kind": "keda"}}
    target = render({"models": [model]}).one("ScaledObject")["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")


@pytest.mark.parametrize("load", LOADS)
def test_replicas_follow_the_load_and_do_not_swing(load: str) -> None:
    assert run(load).turns <= TURNS[load]


@pytest.mark.parametrize("load", LOADS)
def test_in_the_end_they_are_what_the_load_needs(load: str) -> None:
    last = run(load).moments[-1]
    needed = last.load * Server().tokens / GOAL
    assert last.waiting == 0
    assert 0.85 * needed <= last.replicas <= 1.3 * needed + 2


def test_it_goes_from_a_few_to_hundreds() -> None:
    assert min(each.replicas for each in run("diurnal").moments) < 20
    assert run("diurnal").peak > 700
    assert run("spike").peak <= 1000


def test_waiting_requests_alone_would_swing() -> None:
    """Why tokensPerSecond is there: nobody waits at the right size, and a queue says nothing below it."""
    alone = settings("hpa", tokensPerSecond=0, kvFraction=0)
    assert simulate(alone, LOADS["step"], HOURS["step"] * 3600).turns > 2 * TURNS["step"]


def controller(**values: Any) -> Controller:
    up, down = (Policy(percent=100),), (Policy(percent=25),)
    defaults = {"least": 1, "most": 100, "targets": {"waiting": 3.0}, "up_window": 0, "down_window": 60}
    return Controller(Settings(**{**defaults, "up": up, "down": down, **values}))


def test_within_the_tolerance_nothing_moves() -> None:
    assert controller().decide(0, 10, {"waiting": 32.9}) == 10
    assert controller().decide(0, 10, {"waiting": 33.1}) == 12


def test_no_more_come_in_a_period_than_the_policy_lets() -> None:
    one = controller()
    assert one.decide(0, 4, {"waiting": 999}) == 8
    assert one.decide(15, 8, {"waiting": 999}) == 8
    assert one.decide(60, 8, {"waiting": 999}) == 16


def test_none_goes_before_load_was_low_for_the_whole_window() -> None:
    one = controller()
    assert one.decide(0, 8, {"waiting": 24}) == 8
    assert one.decide(60, 8, {"waiting": 0}) == 8
    assert one.decide(75, 8, {"waiting": 0}) == 6


def test_requests_are_conserved() -> None:
    fleet, server = Fleet(Server(), 2, 0.0), Server()
    for second in range(600):
        fleet.step(second, 1.0)
    assert fleet.in_system < 600
    assert fleet.running + fleet.waiting == pytest.approx(fleet.in_system)
    assert server.rate(8) == 464
    assert server.rate(1000) == 666
