"""What cannot work is refused before anything is installed, with the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.render import Refused, render

GPU = {"name": "m", "engine": "tensorrt_llm", "gpu": {"perNode": 8}}
NODES = {**GPU, "tp": 8, "pp": 2}


def model(**values: Any) -> dict[str, Any]:
    return {"models": [{"name": "m", **values}]}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "tp x pp over a node": ({"models": [{**NODES}]}, "set multiNode.enabled"),
    "nodes that are not full": (
        {"models": [{**GPU, "tp": 4, "pp": 3, "multiNode": {"enabled": True, "sshSecretName": "s"}}]},
        "a multiple of 8 GPUs",
    ),
    "several nodes without keys": ({"models": [{**NODES, "multiNode": {"enabled": True}}]}, "name the Secret"),
    "ranks on a CPU": (model(tp=2), "set tp and pp to 1"),
    "an unknown key": ({"modles": []}, "modles"),
    "an unknown key of a model": (model(quantisation="fp8"), "quantisation"),
    "an unknown key deep inside": ({"storage": {"objectStore": {"bucket": "x"}}}, "bucket"),
    "an unknown serving knob": (model(serving={"max_runing": 3}), "max_runing"),
    "an unknown build knob": (model(buildOptions={"kv_type": "fp8"}), "kv_type"),
    "an unknown quantisation": (model(quant="int3"), "quant"),
    "an unknown engine": (model(engine="vllm"), "engine"),
    "a token without a Secret": ({"hubToken": {"enabled": True}}, "name the Secret"),
    "an object store without a Secret": (
        {"storage": {"kind": "objectStore", "objectStore": {"path": "a:b"}}},
        "objectStore.secretName",
    ),
    "an object store without a path": (
        {"storage": {"kind": "objectStore", "objectStore": {"secretName": "s"}}},
        "objectStore.path",
    ),
    "a claim without a name": ({"storage": {"kind": "existingClaim"}}, "name it, or choose kind pvc"),
    "both HPA and KEDA, as a list": (model(autoscaling={"kind": ["hpa", "keda"]}), "kind"),
    "both HPA and KEDA, as blocks": (model(autoscaling={"hpa": {"enabled": True}, "keda": {"enabled": True}}), "hpa"),
    "a grace shorter than the drain": (model(drain={"graceSeconds": 30}), "raise it, set it to 0"),
    "a grace longer than the notice": (
        model(spot={"enabled": True}, drain={"graceSeconds": 90}),
        "set drain.graceSeconds to 0",
    ),
    "two models of one name": ({"models": [{"name": "m"}, {"name": "m"}]}, "each name once"),
    "no model": ({"models": []}, "models"),
    "a model without a name": ({"models": [{"source": "smollm2"}]}, "name"),
    "a name that is a part's": ({"models": [{"name": "m-generator"}]}, "name"),
    "a name with a slash": ({"models": [{"name": "org/m"}]}, "name"),
    "fewest above most": (
        model(autoscaling={"kind": "hpa", "minReplicas": 5, "maxReplicas": 2}),
        "turn them round",
    ),
    "scaling down before a server could come back": (
        model(autoscaling={"kind": "keda", "scaleDownStabilizationSeconds": 60}),
        "startSeconds 600",
    ),
    "a canary without a route": (model(canary={"enabled": True}), "set httpRoute.enabled"),
    "a pool without a picker": (model(inferencePool={"enabled": True}), "name its Service"),
    "a GPU engine built in each start": ({"models": [GPU], "storage": {"kind": "ephemeral"}}, "choose pvc"),
    "a route without a gateway": (
        {"gateway": {"enabled": False}, "httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}]}},
        "enable it",
    ),
    "a route of no Gateway": ({"httpRoute": {"enabled": True}}, "name at least one"),
    "an Ingress for all hosts": ({"ingress": {"enabled": True}}, "name at least one"),
    "a weight over 100": ({"canary": {"weight": 101}}, "weight"),
    "a number as text": (model(replicas="two"), "replicas"),
    "a negative limit": (model(limits={"maxSeqLen": -1}), "maxSeqLen"),
}


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize(("values", "said"), BAD.values(), ids=BAD)
def test_it_is_refused_with_the_remedy(values: dict[str, Any], said: str, generation: int) -> None:
    with pytest.raises(Refused) as refusal:
        render(values, generation=generation)
    assert said in str(refusal.value)
