"""What is to be built: an EngineSpec's words in the library's own, with every limit filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from build_engines.plan.devices import Gpu, find_gpu
from build_engines.plan.formats import FORMATS, KV_FORMATS, WORDS, Format, KvFormat
from build_engines.plan.memory import Layout
from build_engines.plan.model_numbers import ModelNumbers, read_numbers
from build_engines.spec import EngineSpec
from python_llm.artifact import Limits
from python_llm.gpus import Gpu as VisibleGpu

__all__ = ["COMMANDS_ONLY", "Target", "resolve"]

# Families whose weights only a script of the library's examples converts, and the formats it knows.
COMMANDS_ONLY: Mapping[str, tuple[str, ...]] = {"gpt_neox": ("none", "int8_wo", "int4_wo")}
_BATCH, _TOKENS, _LENGTH = 64, 8192, 8192


@dataclass(frozen=True, kw_only=True)
class Target:
    """``gpu``: the kind it is checked for; None where none is seen or named. ``visible``: GPUs of this machine."""

    spec: EngineSpec
    config: Mapping[str, Any]
    numbers: ModelNumbers
    quant: str
    limits: Limits
    gpu: Gpu | None
    capability: tuple[int, int] | None
    gpu_memory: int  # bytes of the smallest; 0: unknown
    visible: int
    route: str  # llm_api or commands

    @property
    def format(self) -> Format:
        return FORMATS[self.quant]

    @property
    def kv(self) -> KvFormat:
        return KV_FORMATS[self.spec.kv_dtype]

    @property
    def world(self) -> int:
        return self.spec.tp * self.spec.pp

    @property
    def nodes(self) -> int:
        return -(-self.world // self.spec.gpus_per_node)

    @property
    def workers(self) -> int:
        """Ranks that are built at once."""
        return max(1, min(self.world, self.visible or self.spec.gpus_per_node))

    @property
    def calibrates(self) -> bool:
        return self.format.calibrated or bool(self.kv.algo)

    @property
    def layout(self) -> Layout:
        return Layout(
            quant=self.quant,
            kv=self.spec.kv_dtype,
            tp=self.spec.tp,
            pp=self.spec.pp,
            group=self.spec.group_size,
            embedding_sharded=self.route == "llm_api" or self.numbers.family in COMMANDS_ONLY,
            max_num_tokens=self.limits.max_num_tokens,
            max_batch_size=self.limits.max_batch_size,
        )


def resolve(spec: EngineSpec, config: Mapping[str, Any], visible: tuple[VisibleGpu, ...]) -> Target:
    """Fill in what the spec leaves open. It refuses nothing but an architecture or a GPU without figures.

    Raises:
        CheckpointError, SpecError: numbers of the model, or of the GPU, are not to be had.
    """
    numbers = read_numbers(config, spec.model)
    gpu = find_gpu(spec.gpu) if spec.gpu else None
    seen = visible[0] if visible and not spec.gpu else None
    enough = (len(visible) or spec.gpus_per_node) >= spec.tp * spec.pp
    by_script = numbers.family in COMMANDS_ONLY
    return Target(
        spec=spec,
        config=config,
        numbers=numbers,
        quant=WORDS.get(spec.quant, spec.quant),
        limits=_limits(spec, numbers.context),
        gpu=gpu,
        capability=seen.version if seen else gpu.version if gpu else None,
        gpu_memory=min(each.total for each in visible) if seen else int(gpu.memory_gb * 1e9) if gpu else 0,
        visible=len(visible),
        route="llm_api" if enough and not by_script and spec.speculative == "none" else "commands",
    )


def _limits(spec: EngineSpec, context: int) -> Limits:
    """The library's defaults would refuse prompts above 1,024 tokens, and plan for 2,048 sequences."""
    length = spec.max_seq_len or min(context, _LENGTH)
    return Limits(
        max_batch_size=spec.max_batch_size or _BATCH,
        max_input_len=spec.max_input_len or length,
        max_seq_len=length,
        max_num_tokens=spec.max_num_tokens or _TOKENS,
    )
