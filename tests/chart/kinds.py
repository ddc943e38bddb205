"""Manifests held to the schemas of their kinds, in which unknown fields are errors.

Kubernetes' own kinds: kubernetes-validate. KEDA and the Prometheus operator: packages (tests/chart/tools.py), made
strict here. LeaderWorkerSet, InferencePool and HTTPRoute: `schemas/`, written by hand, of the fields that the chart
emits; each names its source. The pod templates of a LeaderWorkerSet are Kubernetes' own again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate

from tests.chart.render import pods
from tests.chart.tools import crds

__all__ = ["problems"]

_OURS = Path(__file__).parent / "schemas"
_KUBERNETES = "1.33"


def problems(manifest: Mapping[str, Any]) -> list[str]:
    """What is wrong with it; a kind that nobody knows is."""
    key = f"{manifest['apiVersion']}/{manifest['kind']}"
    if key in _foreign():
        found = jsonschema.Draft202012Validator(_foreign()[key]).iter_errors(manifest)
        told = [f"{key} {'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]
        return told + [problem for pod in _pods_of(manifest) for problem in problems(problem_pod(pod))]
    try:
        kubernetes_validate.validate(dict(manifest), _KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{key} {'.'.join(map(str, error.path))}: {error.message}"]
    except kubernetes_validate.SchemaNotFoundError:
        return [f"{key}: nobody knows this kind."]
    return []


def problem_pod(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod template as a pod."""
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "pod", **template.get("metadata", {})}}


def _pods_of(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if manifest["kind"] == "LeaderWorkerSet":
        yield from (template for _, template in pods([dict(manifest)]))


@cache
def _foreign() -> dict[str, Any]:
    found = {key: _strict(schema) for key, schema in crds().items()}
    for file in _OURS.glob("*.json"):
        schema = json.loads(file.read_text("utf-8"))
        found[schema["title"]] = schema
    return found


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Objects take what they list and no more; ``null``, the models' word for absent, is no value."""
    made: dict[str, Any] = copy.deepcopy(dict(schema))
    _walk(made)
    made["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    return made


def _walk(node: Any) -> None:
    if isinstance(node, list):
        for each in node:
            _walk(each)
    elif isinstance(node, dict):
        if isinstance(node.get("anyOf"), list):
            node["anyOf"] = [each for each in node["anyOf"] if each != {"type": "null"}]
        if node.get("type") == "object" and "properties" in node:
            node.setdefault("additionalProperties", False)
        for each in node.values():
            _walk(each)
