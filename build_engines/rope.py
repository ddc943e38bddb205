"""Rotary position scaling: which kinds are known, and up to which length the compiled model computes them exactly.

The frequencies of `dynamic` and `longrope` change with the length of the longest sequence. A compiled model shares one
forward pass among sequences of many lengths and keeps their KV blocks, so it computes the frequencies of the original
length, and the context it serves ends there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError

__all__ = ["check_rope", "exact_context"]


def check_rope(folder: Path, config: Any) -> None:
    """Refuse a scaling kind that transformers does not compute; ``config`` is transformers' own object.

    Raises:
        CheckpointError: the kind is not known.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    known = {*ROPE_INIT_FUNCTIONS, "mrope"}  # mrope of text alone is the default
    kind = rope_kind(config)
    if kind not in known:
        raise CheckpointError(
            f"checkpoint '{folder}': rope_scaling of config.json is of type '{kind}'; known types: "
            f"{', '.join(sorted(known))}: mend the configuration, or take another model."
        )


def exact_context(config: Any, positions: int) -> int:
    """Tokens up to which every sequence's positions are computed as the checkpoint says; ``positions`` it claims."""
    if rope_kind(config) != "longrope":
        return positions
    scaling = config.rope_scaling
    original = getattr(config, "original_max_position_embeddings", None)
    original = original or scaling.get("original_max_position_embeddings")
    return min(positions, int(original)) if original else positions


def rope_kind(config: Any) -> str:
    scaling = getattr(config, "rope_scaling", None)
    if not isinstance(scaling, dict):
        return "default"
    return str(scaling.get("rope_type", scaling.get("type", "default")))
