"""Every values file, whole: rendered by helm 3 and 4, linted, held to schemas and to its golden manifests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.chart.golden import GOLDEN, read_golden
from tests.chart.kinds import problem_pod, problems
from tests.chart.render import CHART, VALUES, pods, render, render_file
from tests.chart.tools import helm

FILES = pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
GENERATIONS = pytest.mark.parametrize("generation", [3, 4])


def test_every_values_file_has_golden_manifests_and_no_other() -> None:
    assert sorted(file.name for file in GOLDEN.glob("*.yaml")) == [file.name for file in VALUES]


@GENERATIONS
@FILES
def test_it_renders_as_the_golden_manifests_say(file: Path, generation: int) -> None:
    assert render_file(file, generation=generation) == read_golden(file.name), "look at it, then: make helm-golden"


@GENERATIONS
@FILES
def test_the_strict_linter_finds_nothing(file: Path, generation: int) -> None:
    command = [str(helm(generation)), "lint", str(CHART), "--strict", "--kube-version", "1.33", "--values", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@FILES
def test_every_manifest_is_of_its_kind_with_no_unknown_field(file: Path) -> None:
    found = [problem for manifest in render_file(file) for problem in problems(manifest)]
    assert not found, "\n".join(found)


def test_the_defaults_are_sound_too() -> None:
    assert not [problem for manifest in render() for problem in problems(manifest)]


BAD = {
    "an unknown kind": {
        "apiVersion": "autoscaling/v2beta2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "x"},
    },
    "an unknown field of Kubernetes": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"x": 1}},
    "an unknown field of KEDA": {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "x"},
        "spec": {"scaleTargetRef": {"name": "x"}, "triggers": [], "cooldown": 3},
    },
    "an unknown field of the operator": {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "x"},
        "spec": {"selector": {}, "podMetricsEndpoints": [{"ports": "x"}]},
    },
    "a weight that is text": {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "x", "namespace": "y"},
        "spec": {"parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "a", "weight": "5"}]}]},
    },
    "an unknown field inside a group's pod": {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "x", "namespace": "y"},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "c", "iamge": "x"}]}}}},
    },
}


@pytest.mark.parametrize("manifest", BAD.values(), ids=BAD)
def test_the_checker_sees_what_is_wrong(manifest: dict[str, object]) -> None:
    assert problems(manifest)


@FILES
def test_every_end_has_time_for_prestop_drain_and_exit(file: Path) -> None:
    """The drain contract: nothing that runs is cut by Kubernetes before the launcher itself would."""
    for where, pod in pods(render_file(file)):
        for container in pod["spec"]["containers"]:
            command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
            words = [*command, *container.get("args", [])]
            waits = [
                int(word.partition("=")[2]) for word in words if word.startswith(("--wait-sec", "--drain-", "--grace-"))
            ]
            if waits:
                exit_seconds = 8 if "--wait-seconds" in str(command) else int(command[1])
                assert pod["spec"]["terminationGracePeriodSeconds"] > sum(waits) + exit_seconds, where


@FILES
def test_secrets_are_named_and_never_made(file: Path) -> None:
    rendered = render_file(file)
    assert not rendered.of("Secret")
    for _, pod in pods(rendered):
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
            for variable in container.get("env", []):
                assert "TOKEN" not in variable["name"] or variable["name"].endswith("_PATH")


def test_a_pod_template_is_a_pod() -> None:
    assert problem_pod({"spec": {"containers": []}})["kind"] == "Pod"
