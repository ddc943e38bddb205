"""Prompts for measuring: fixed by their seed, so that every subject of a round gets the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

__all__ = ["random_prompts"]

_LOWEST = 100  # below it are special tokens in most vocabularies


def random_prompts(
    count: int, length: int, *, seed: str, vocabulary: int | Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """``count`` prompts of ``length`` random token ids each; no two share a prefix worth caching.

    ``vocabulary``: ids to draw from, or how many there are.
    """
    draw = Random(seed)
    ids = range(_LOWEST, vocabulary) if isinstance(vocabulary, int) else vocabulary
    return tuple(tuple(draw.choice(ids) for _ in range(length)) for _ in range(count))
