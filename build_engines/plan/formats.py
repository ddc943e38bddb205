"""Quantisations of TensorRT-LLM, one table: bits and scales, the GPU each needs, the library's own names.

Compute capabilities: NVIDIA's CUDA programming guide for the arithmetic (FP8 tensor cores from 8.9, FP4 from 10.0);
what of it an engine has, from the library's precision tables. ``qformat`` are words of quantize.py, ``algo`` members
of QuantAlgo: tests/contract/test_trtllm_api.py holds both to the API facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMATS", "KV_FORMATS", "WORDS", "Format", "KvFormat", "missing_on"]

AMPERE, ADA, BLACKWELL = (8, 0), (8, 9), (10, 0)


@dataclass(frozen=True)
class Format:
    name: str
    bits: float  # of a weight, without its scales
    needs: tuple[int, int]  # least compute capability
    qformat: str
    algo: str  # "" : none
    arithmetic: str = "fp16"  # what matrices are multiplied in, as Gpu.arithmetic names it
    group: int = 0  # weights of a row that share a scale; 0: no groups
    scale_bits: int = 0  # of one scale of a group
    channel_bytes: int = 0  # scales of one output channel
    input_bytes: int = 0  # of one input channel: AWQ's and SmoothQuant's smoothing factors
    calibrated: bool = False
    verified_to: tuple[int, int] = (9, 0)  # the newest GPU for which the library's tables list it


# What TensorRT-LLM's tables list: engines to Hopper for the integer and AWQ formats; FP8 and NVFP4 on Blackwell too.
FORMATS: Mapping[str, Format] = {
    row.name: row
    for row in (
        Format("none", 16, AMPERE, "full_prec", "", verified_to=BLACKWELL),
        Format("fp8", 8, ADA, "fp8", "FP8", "fp8", calibrated=True, verified_to=BLACKWELL),
        Format("int8_sq", 8, AMPERE, "int8_sq", "W8A8_SQ_PER_CHANNEL", "int8", 0, 0, 4, 4, True),
        Format("int8_wo", 8, AMPERE, "int8_wo", "W8A16", channel_bytes=2),
        Format("int4_wo", 4, AMPERE, "int4_wo", "W4A16", channel_bytes=2),
        Format("int4_awq", 4, AMPERE, "int4_awq", "W4A16_AWQ", "fp16", 128, 16, 0, 2, True),
        Format("w4a8_awq", 4, ADA, "w4a8_awq", "W4A8_AWQ", "fp8", 128, 16, 0, 2, True),
        Format("nvfp4", 4, BLACKWELL, "nvfp4", "NVFP4", "fp4", 16, 8, 0, 0, True, BLACKWELL),
    )
}
# The words that every engine understands, in this library's.
WORDS: Mapping[str, str] = {"int8": "int8_sq", "int4": "int4_awq"}


@dataclass(frozen=True)
class KvFormat:
    name: str
    bytes: float  # of one element, scales included
    needs: tuple[int, int]
    algo: str  # of QuantAlgo; "": as the weights were


KV_FORMATS: Mapping[str, KvFormat] = {
    row.name: row
    for row in (
        KvFormat("auto", 2.0, AMPERE, ""),
        KvFormat("fp8", 1.0, ADA, "FP8"),
        KvFormat("int8", 1.0, AMPERE, "INT8"),
        KvFormat("nvfp4", 0.5625, BLACKWELL, "NVFP4"),
    )
}


def missing_on(row: Format | KvFormat, capability: tuple[int, int]) -> str:
    """Why a GPU of this compute capability cannot have the format; empty where it can."""
    if capability >= row.needs:
        return ""
    needed, found = (".".join(map(str, version)) for version in (row.needs, capability))
    return f"{row.name} needs compute capability {needed}, this GPU has {found}"
