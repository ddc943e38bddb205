"""What is simulated is what the chart renders: a HorizontalPodAutoscaler or a ScaledObject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Policy", "Settings"]

# The metric's name, or the trigger's -> what the fleet calls it.
_SIGNALS = {
    "triton_llm_requests_waiting": "waiting",
    "triton_llm_output_tokens_per_second": "tokens",
    "triton_llm_kv_blocks_used_ratio": "kv",
}


@dataclass(frozen=True)
class Policy:
    """``pods`` or ``percent`` of the replicas may come or go within ``seconds``."""

    pods: int = 0
    percent: int = 0
    seconds: int = 60


@dataclass(frozen=True)
class Settings:
    """``targets``: signal -> its value for one server. Windows in seconds."""

    least: int
    most: int
    targets: Mapping[str, float]
    up_window: int
    down_window: int
    up: tuple[Policy, ...]
    down: tuple[Policy, ...]

    @staticmethod
    def of(manifest: Mapping[str, Any]) -> Settings:
        """Signals that are no server's own (the quantile of TTFT) are a guard, and not simulated."""
        spec = manifest["spec"]
        if manifest["kind"] == "ScaledObject":
            behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
            targets = {each["name"]: float(each["metadata"]["threshold"]) for each in spec["triggers"]}
            targets.pop("ttft", None)
            return Settings._with(spec["minReplicaCount"], spec["maxReplicaCount"], targets, behavior)
        pods = [each["pods"] for each in spec["metrics"] if each["type"] == "Pods"]
        targets = {_SIGNALS[each["metric"]["name"]]: _quantity(each["target"]["averageValue"]) for each in pods}
        return Settings._with(spec["minReplicas"], spec["maxReplicas"], targets, spec["behavior"])

    @staticmethod
    def _with(least: int, most: int, targets: Mapping[str, float], behavior: Mapping[str, Any]) -> Settings:
        up, down = behavior["scaleUp"], behavior["scaleDown"]
        windows = (up["stabilizationWindowSeconds"], down["stabilizationWindowSeconds"])
        return Settings(least, most, targets, *windows, *(_policies(each["policies"]) for each in (up, down)))


def _policies(found: list[Mapping[str, Any]]) -> tuple[Policy, ...]:
    return tuple(Policy(**{each["type"].lower(): each["value"], "seconds": each["periodSeconds"]}) for each in found)


def _quantity(text: str) -> float:
    return float(text.removesuffix("m")) / 1000
