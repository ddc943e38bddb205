"""What the OpenVINO plugin is told, and what its keys and values depend on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openvino as ov

from python_llm.machine import usable_cpus
from python_llm.settings import ServingConfig

__all__ = ["identity", "properties"]

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


def identity(core: ov.Core, told: Mapping[str, Any]) -> dict[str, Any]:
    """Library, device and properties: blocks of any other are not these. The number of threads changes no layout."""
    return {
        "openvino": ov.get_version(),
        "device": core.get_property("CPU", "FULL_DEVICE_NAME"),
        "abilities": sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
        "cpu": _cpu_kind(),
        "properties": {name: value for name, value in told.items() if name != "INFERENCE_NUM_THREADS"},
    }


def _cpu_kind() -> dict[str, Any]:
    """Kernels are chosen by instruction set, and round each in its own way."""
    try:
        first = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0]
    except FileNotFoundError:  # the plugin's name for the device must do
        return {}
    facts = dict(_fact(line) for line in first.splitlines())
    flags = facts.get("flags", facts.get("Features", "")).split()
    kind: dict[str, Any] = {name: facts.get(name) for name in ("model name", "cpu family", "model", "CPU part")}
    return {**kind, "vectors": sorted(flag for flag in flags if flag.startswith(_VECTORS))}


def _fact(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()
