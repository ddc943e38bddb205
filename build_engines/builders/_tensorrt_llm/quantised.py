"""ModelOpt's quantised Hugging Face folders: hf_quant_config.json says what the weights are, and they must be it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError
from build_engines.json_files import read_object
from build_engines.tensors import TensorInfo

__all__ = ["QUANT_CONFIG", "check_quantised", "read_quantisation"]

QUANT_CONFIG = "hf_quant_config.json"
# algorithm -> types of its packed weights in safetensors, and the names that their scales end in.
_PACKED: Mapping[str, tuple[frozenset[str], str]] = {
    "FP8": (frozenset({"F8_E4M3"}), "weight_scale"),
    "FP8_PER_CHANNEL_PER_TOKEN": (frozenset({"F8_E4M3"}), "weight_scale"),
    "FP8_BLOCK_SCALES": (frozenset({"F8_E4M3"}), "scale"),
    "NVFP4": (frozenset({"U8"}), "weight_scale"),
    "W4A16_AWQ": (frozenset({"U8"}), "weight_scale"),
    "W4A8_AWQ": (frozenset({"U8"}), "weight_scale"),
    "W8A8_SQ_PER_CHANNEL": (frozenset({"I8"}), "weight_scale"),
}


def read_quantisation(folder: Path) -> dict[str, Any]:
    """What artifact.json says of the folder's quantisation; ``none`` where it names none.

    Raises:
        CheckpointError: a quantisation that is not named, or one nobody reads here.
    """
    if not (folder / QUANT_CONFIG).is_file():
        return {"weights": "none", "format": "none", "kv_cache": "auto"}
    named = read_object(folder / QUANT_CONFIG).get("quantization")
    named = named if isinstance(named, dict) else {}
    algo = str(named.get("quant_algo") or "")
    if not algo and named.get("kv_cache_quant_algo"):  # the cache alone
        return {"weights": "none", "format": "none", "kv_cache": str(named["kv_cache_quant_algo"]).lower()}
    if algo not in _PACKED:
        raise CheckpointError(
            f"checkpoint '{folder}': {QUANT_CONFIG} names quant_algo '{algo}'; known are {', '.join(_PACKED)}: export "
            "it again with ModelOpt, or give the original weights."
        )
    kv = str(named.get("kv_cache_quant_algo") or "auto").lower()
    group = {"group_size": named["group_size"]} if named.get("group_size") else {}
    return {"weights": algo.lower(), "format": algo, "kv_cache": kv, **group}


def check_quantised(folder: Path, weights: Mapping[Path, Mapping[str, TensorInfo]]) -> None:
    """The weights are quantised as the folder says.

    Raises:
        CheckpointError: a folder that calls itself quantised and is not, or has no scales.
    """
    algo = str(read_quantisation(folder)["format"])
    if algo == "none":
        return
    kinds, scale = _PACKED[algo]
    tensors = {name: info for file in weights.values() for name, info in file.items()}
    packed = [name for name, info in tensors.items() if info.dtype in kinds]
    if not packed:
        found = ", ".join(sorted({info.dtype for info in tensors.values()}))
        raise CheckpointError(
            f"checkpoint '{folder}': {QUANT_CONFIG} says {algo} and no tensor is ({found}); it is not quantised: "
            f"export it with ModelOpt, or take {QUANT_CONFIG} out and build it with a quant."
        )
    if not any(scale in name for name in tensors):
        raise CheckpointError(
            f"checkpoint '{folder}': {algo} weights without a {scale}; without its scales a weight means nothing: "
            "export it again with ModelOpt."
        )
