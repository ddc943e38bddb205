"""What is here, as values: the only thing about a machine that the checks look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from python_llm.gpus import Gpu

__all__ = ["RuntimeFacts"]


@dataclass(frozen=True)
class RuntimeFacts:
    """Of this node. A package that is not installed has no version."""

    versions: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    tokenizer_ids: int | None = None  # ids of the artifact's tokenizer, without added ones; None: it does not say
    lora_ranks: Mapping[str, int] = field(default_factory=dict)  # adapter's folder -> its rank
