"""Scores of 0 to 10 for each candidate and criterion, and the ranking that weights make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

__all__ = ["CRITERIA", "Candidate", "Ranked", "Scores", "rank", "tipping_weights", "winners"]

CRITERIA = ("performance", "cost", "ease", "extensibility", "ecosystem")
Weights = Mapping[str, float]
Scores = Mapping[str, float]  # criterion -> 0 to 10
_DRAWS = 2000


@dataclass(frozen=True)
class Candidate:
    """``why``: criterion -> the figure or the reason behind its score."""

    name: str
    scores: Scores
    why: Mapping[str, str]


@dataclass(frozen=True)
class Ranked:
    """``parts``: what each criterion adds to ``total``, which is 0 to 10."""

    candidate: Candidate
    total: float
    parts: Mapping[str, float]


def rank(candidates: Sequence[Candidate], weights: Weights) -> list[Ranked]:
    """The best first; of equals the one whose name comes first."""
    whole = sum(weights.values())
    ranked = []
    for candidate in candidates:
        parts = {name: weights[name] / whole * candidate.scores[name] for name in CRITERIA}
        ranked.append(Ranked(candidate, sum(parts.values()), parts))
    return sorted(ranked, key=lambda one: (-one.total, one.candidate.name))


def tipping_weights(candidates: Sequence[Candidate], weights: Weights) -> dict[str, list[tuple[int, str]]]:
    """Criterion -> (its weight in %, who then wins) wherever the winner changes as that weight goes from 0 to 100.

    The other weights keep their proportions. The first entry is the winner at 0 %.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for name in CRITERIA:
        turns: list[tuple[int, str]] = []
        for percent in range(101):
            best = rank(candidates, _with(weights, name, percent))[0].candidate.name
            if not turns or turns[-1][1] != best:
                turns.append((percent, best))
        found[name] = turns
    return found


def winners(candidates: Sequence[Candidate], *, seed: int = 0) -> dict[str, float]:
    """Name -> the share of weights, drawn evenly from all there can be, with which it is first."""
    draw, wins = Random(seed), dict.fromkeys((one.name for one in candidates), 0)
    for _ in range(_DRAWS):
        drawn = {name: draw.expovariate(1.0) for name in CRITERIA}  # even over all weights that add up to one
        wins[rank(candidates, drawn)[0].candidate.name] += 1
    return {name: count / _DRAWS for name, count in wins.items()}


def _with(weights: Weights, name: str, percent: int) -> dict[str, float]:
    others = sum(value for other, value in weights.items() if other != name)
    share = (100 - percent) / others if others else 0.0
    return {other: float(percent) if other == name else value * share for other, value in weights.items()}
