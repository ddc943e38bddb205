"""What the OpenVINO plugin is told, and what its keys and values depend on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openvino as ov

from python_llm.machine import free_bytes, usable_cpus
from python_llm.settings import ServingConfig

__all__ = ["identity", "prefill_properties", "properties"]

_log = logging.getLogger(__name__)
_WEIGHTS_SHARE = 1 / 8  # of the free memory, that a second form of the weights may take
_COPY_TIMES = 1.25  # the file; 1.2 was measured
_VECTORS = ("amx", "asimd", "avx", "f16c", "fma", "sve")  # how the names of such instructions begin


def properties(serving: ServingConfig, quantised: bool) -> dict[str, Any]:
    """The plugin's properties; ``quantised``: whether the weights are."""
    told: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": serving.threads or usable_cpus(),
        "KV_CACHE_PRECISION": serving.kv_cache_precision,
        "PERFORMANCE_HINT": "LATENCY",
    }
    # A plugin on a CPU with bf16 would choose it: quantised matrices gain nothing from it while logits lose all but 8
    # bits, and bf16 attention takes no f16 or f32 cache. Unquantised weights keep the plugin's choice.
    exact = serving.inference_precision == "f32"
    if exact or quantised or serving.kv_cache_precision != "u8":
        told["INFERENCE_PRECISION_HINT"] = "f32"
    if exact:
        told["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    return told


def prefill_properties(serving: ServingConfig, told: Mapping[str, Any], weights: Path) -> dict[str, Any] | None:
    """Those of a second form of the model, for steps that read prompts; None: one form does for all.

    A CPU with matrix units (AMX) reads prompts faster in bf16 than with activations quantised on the fly, and rounds
    less; single tokens it computes slower. The second form holds the weights once more, so they must be small.
    """
    quantised_on_the_fly = told.get("INFERENCE_PRECISION_HINT") == "f32" and serving.inference_precision == "auto"
    if not quantised_on_the_fly or serving.kv_cache_precision != "u8" or "amx_bf16" not in _cpu_kind()["vectors"]:
        return None
    needed, free = int(_COPY_TIMES * weights.stat().st_size), free_bytes()
    if needed > _WEIGHTS_SHARE * free:
        _log.info("prompts are not read in bf16: that takes %d bytes more, and %d are free", needed, free)
        return None
    return {**told, "INFERENCE_PRECISION_HINT": "bf16"}


def identity(core: ov.Core, told: Mapping[str, Any], prefill: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Library, device and properties: blocks of any other are not these. The number of threads changes no layout."""
    forms = {"properties": _without_threads(told)} | ({"prefill": _without_threads(prefill)} if prefill else {})
    return {
        "openvino": ov.get_version(),
        "device": core.get_property("CPU", "FULL_DEVICE_NAME"),
        "abilities": sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
        "cpu": _cpu_kind(),
        **forms,
    }


def _without_threads(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "INFERENCE_NUM_THREADS"}


def _cpu_kind() -> dict[str, Any]:
    """Kernels are chosen by instruction set, and round each in its own way."""
    try:
        first = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0]
    except FileNotFoundError:  # the plugin's name for the device must do
        return {"vectors": []}
    facts = dict(_fact(line) for line in first.splitlines())
    flags = facts.get("flags", facts.get("Features", "")).split()
    kind: dict[str, Any] = {name: facts.get(name) for name in ("model name", "cpu family", "model", "CPU part")}
    return {**kind, "vectors": sorted(flag for flag in flags if flag.startswith(_VECTORS))}


def _fact(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()
