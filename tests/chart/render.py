"""The chart rendered by a real helm, once for each set of values."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.chart.tools import ROOT, helm

__all__ = ["CHART", "NAMESPACE", "VALUES", "Refused", "Rendered", "pods", "render", "render_file"]

CHART = ROOT / "deploy" / "helm" / "triton-llm"
VALUES = sorted((CHART / "values").glob("*.yaml"))
NAMESPACE = "llm"

Manifest = dict[str, Any]


class Refused(Exception):
    """helm did not render; the text is what it said."""


class Rendered(list[Manifest]):
    """Manifests in helm's order."""

    def of(self, kind: str, name: str = "") -> list[Manifest]:
        """Those of a kind, and where given of a name's ending."""
        return [each for each in self if each["kind"] == kind and each["metadata"]["name"].endswith(name)]

    def one(self, kind: str, name: str = "") -> Manifest:
        (found,) = self.of(kind, name)
        return found


def render(values: Mapping[str, Any] | None = None, *, generation: int = 3, release: str = "r") -> Rendered:
    """With these values over the chart's own. Raises Refused."""
    return Rendered(yaml.safe_load(_rendered(json.dumps(values or {}), generation, release)))


def render_file(file: Path, *, generation: int = 3) -> Rendered:
    return render(yaml.safe_load(file.read_text("utf-8")), generation=generation)


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """(where, pod template) of everything that makes pods, those inside LeaderWorkerSets too."""
    for each in manifests:
        name, spec = f"{each['kind']}/{each['metadata']['name']}", each.get("spec", {})
        if each["kind"] == "Pod":
            yield name, each
        elif each["kind"] == "LeaderWorkerSet":
            for part in ("leaderTemplate", "workerTemplate"):
                if part in spec["leaderWorkerTemplate"]:
                    yield f"{name}/{part}", spec["leaderWorkerTemplate"][part]
        elif "template" in spec:
            yield name, spec["template"]


@cache
def _rendered(values: str, generation: int, release: str) -> str:
    """One YAML list; helm's own text differs between generations in blank lines."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        command = [
            str(helm(generation)),
            "template",
            release,
            str(CHART),
            "--namespace",
            NAMESPACE,
            "--values",
            file.name,
        ]
        done = subprocess.run(
            [*command, "--kube-version", "1.33"], capture_output=True, text=True, timeout=120, check=False
        )
    if done.returncode:
        raise Refused(done.stderr)
    return json.dumps([each for each in yaml.load_all(done.stdout, _loader()) if each])


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
