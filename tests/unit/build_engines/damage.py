"""Damage to a finished IR: one matrix' scales, where compression would have gone wrong."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

__all__ = ["damage_scales"]

_FLOATS = {"f16": np.float16, "f32": np.float32}


def damage_scales(ir: Path, layer: str, factor: float) -> int:
    """Multiply every scale of the matrices of ``layer`` in the .bin beside ``ir``; how many scales there were."""
    weights = np.memmap(ir.with_suffix(".bin"), np.uint8, "r+")
    damaged = 0
    for node in ElementTree.parse(ir).iterfind("layers/layer"):
        data = node.find("data")
        name = node.get("name", "")
        if data is None or node.get("type") != "Const" or layer not in name or not name.endswith("scale"):
            continue
        begin, size = int(data.get("offset", 0)), int(data.get("size", 0))
        scales = weights[begin : begin + size].view(_FLOATS[data.get("element_type", "")])
        scales *= factor
        damaged += len(scales)
    weights.flush()
    return damaged
