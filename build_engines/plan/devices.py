"""Kinds of GPUs and CPUs: gpus.json and cpus.json, each figure with its source and date."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from build_engines.errors import SpecError
from python_llm.records import read_record

__all__ = ["Cpu", "Gpu", "cpus", "find_cpu", "find_gpu", "gpus"]


@dataclass(frozen=True)
class Gpu:
    """Memory in GB of 1e9 bytes, bandwidths in GB/s, arithmetic in dense TFLOPS or TOPS (no sparsity)."""

    name: str
    capability: str  # CUDA compute capability, "9.0"
    memory_gb: float
    bandwidth_gbs: float
    fp16_tflops: float
    link_gbs: float  # between GPUs of a node, both directions together: NVLink, or PCIe where there is none
    host_gbs: float  # to host memory, one direction
    source: str
    date: str
    fp8_tflops: float = 0.0  # 0: the GPU has no such arithmetic
    int8_tops: float = 0.0
    fp4_tflops: float = 0.0
    aliases: tuple[str, ...] = ()
    note: str = ""

    @property
    def version(self) -> tuple[int, int]:
        major, _, minor = self.capability.partition(".")
        return int(major), int(minor)

    @property
    def has_nvlink(self) -> bool:
        return self.link_gbs > 128

    def arithmetic(self, kind: str) -> float:
        """FLOPS of one kind (fp16, fp8, int8, fp4); without it, what it is computed in: fp16."""
        found = {"fp8": self.fp8_tflops, "int8": self.int8_tops, "fp4": self.fp4_tflops}.get(kind, 0.0)
        return (found or self.fp16_tflops) * 1e12


@dataclass(frozen=True)
class Cpu:
    """One socket: bandwidth of its filled memory channels, arithmetic at the base clock."""

    name: str
    cores: int
    base_ghz: float
    fp32_flops_per_cycle: int  # of one core
    bf16_flops_per_cycle: int  # of one core, with AMX or AVX-512 BF16; 0: none
    bandwidth_gbs: float
    source: str
    date: str
    aliases: tuple[str, ...] = ()
    note: str = ""

    @property
    def flops(self) -> float:
        return self.cores * self.base_ghz * 1e9 * max(self.fp32_flops_per_cycle, self.bf16_flops_per_cycle)


@cache
def gpus() -> Mapping[str, Gpu]:
    """Every GPU by name."""
    return {gpu.name: gpu for gpu in (read_record(Gpu, row, "gpus.json") for row in _rows("gpus.json"))}


@cache
def cpus() -> Mapping[str, Cpu]:
    """Every CPU by name."""
    return {cpu.name: cpu for cpu in (read_record(Cpu, row, "cpus.json") for row in _rows("cpus.json"))}


def find_gpu(name: str) -> Gpu:
    """The GPU of this name or alias, in any case.

    Raises:
        SpecError: there is none; the known ones are named.
    """
    return gpus()[_find(name, {gpu.name: gpu.aliases for gpu in gpus().values()}, "gpu")]


def find_cpu(name: str) -> Cpu:
    """The CPU of this name or alias; raises SpecError."""
    return cpus()[_find(name, {cpu.name: cpu.aliases for cpu in cpus().values()}, "cpu")]


def _rows(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(files("build_engines.plan").joinpath(file).read_text("utf-8"))["devices"]
    return rows


def _find(name: str, known: Mapping[str, tuple[str, ...]], what: str) -> str:
    words = {word.casefold(): own for own, aliases in known.items() for word in (own, *aliases)}
    found = words.get(name.casefold())
    if found is None:
        close = difflib.get_close_matches(name.casefold(), words, n=1)
        hint = f"did you mean '{words[close[0]]}'?" if close else "choose one of these."
        raise SpecError(f"{what} '{name}': no figures for it; there are: {', '.join(known)}; {hint}")
    return found
