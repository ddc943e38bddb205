"""What is here, as values: the only thing about a machine that the checks look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Gpu", "RuntimeFacts"]


@dataclass(frozen=True)
class Gpu:
    name: str
    capability: str  # compute capability, "9.0"
    total: int  # bytes
    free: int


@dataclass(frozen=True)
class RuntimeFacts:
    """Of this node. A package that is not installed has no version."""

    versions: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    tokenizer_ids: int | None = None  # ids of the artifact's tokenizer, without added ones; None: it does not say
    lora_ranks: Mapping[str, int] = field(default_factory=dict)  # adapter's folder -> its rank
