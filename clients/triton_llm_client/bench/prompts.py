"""Prompts for measuring: fixed by their seed, so that every subject of a round gets the same ones."""

from __future__ import annotations

from random import Random

__all__ = ["random_prompts"]

_LOWEST = 100  # below it are special tokens in most vocabularies


def random_prompts(count: int, length: int, *, seed: str, vocabulary: int) -> tuple[tuple[int, ...], ...]:
    """``count`` prompts of ``length`` random token ids each; no two share a prefix worth caching."""
    draw = Random(seed)
    return tuple(tuple(draw.randrange(_LOWEST, vocabulary) for _ in range(length)) for _ in range(count))
