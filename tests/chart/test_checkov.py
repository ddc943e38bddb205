"""checkov over every golden manifest, and over the pods inside LeaderWorkerSets, which it does not see by itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart.golden import read_golden
from tests.chart.kinds import problem_pod
from tests.chart.render import NAMESPACE, VALUES, pods
from tests.chart.tools import checkov

# Finding -> (what it is about, why it stands).
EXPLAINED = {
    "CKV_K8S_43": ("", "digests are the installer's: images.*.digest; the project publishes no images"),
    "CKV_K8S_8": ("-test-", "a helm test runs once and ends: activeDeadlineSeconds bounds it"),
    "CKV_K8S_9": ("-test-", "a helm test runs once and ends: nothing is sent to it"),
    "CKV_K8S_35": ("llama-405b", "rclone reads its remotes from the environment alone"),
    "CKV_K8S_40": ("leaderworkerset", "sshd wants a user of the image: security.multiNodeUserId"),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """(check, resource)."""
    folder = tmp_path_factory.mktemp("checkov")
    for file in VALUES:
        manifests = read_golden(file.name)
        inner = [_named(where, pod) for where, pod in pods(manifests.of("LeaderWorkerSet"))]
        (folder / file.name).write_text(yaml.safe_dump_all([*manifests, *inner]), "utf-8")
    command = [*checkov(), "-d", str(folder), "--framework", "kubernetes", "--skip-download", "--compact", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 1000, "it looked at too little"
    assert not report["summary"]["parsing_errors"]
    return [(each["check_id"], each["resource"].lower()) for each in report["results"]["failed_checks"]]


def _named(where: str, pod: dict[str, object]) -> dict[str, object]:
    made = problem_pod(pod)
    made["metadata"] = {**made["metadata"], "name": where.lower().replace("/", "-"), "namespace": NAMESPACE}
    return made


def test_every_finding_is_explained(findings: list[tuple[str, str]]) -> None:
    left = [each for each in findings if each[0] not in EXPLAINED or EXPLAINED[each[0]][0] not in each[1]]
    assert not left


def test_every_explanation_is_needed(findings: list[tuple[str, str]]) -> None:
    assert {check for check, _ in findings} == set(EXPLAINED)


def test_the_golden_manifests_are_where_it_looks() -> None:
    assert all(Path(file).is_file() for file in VALUES)
