"""The next token of each sequence from its logits, in numpy.

Order, as in transformers' logits warpers: temperature, top-k, top-p, min-p. The noise of a token comes from a
counter-based generator keyed by (seed) and counted by (position, sequence index): it depends on nothing else, so
neighbours in the batch, chunking, preemption and resumption change no token but through the logits.
(Salmon et al. 2011, Philox.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from python_llm.engine import SamplingParams

__all__ = ["Draw", "sample"]

Floats = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
_FIRST_LOOK = 256  # candidates that usually hold all of top_p's mass


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row's token depends on beside its logits. ``forbidden`` ids cannot be drawn."""

    params: SamplingParams
    index: int
    position: int
    forbidden: frozenset[int] = frozenset()


def sample(logits: Floats, draws: list[Draw]) -> list[int]:
    """Draw one id per row of ``logits`` [rows, vocabulary]; the logits are not changed."""
    greedy = np.argmax(logits, axis=1)
    return [
        int(greedy[row]) if draw.params.greedy and not draw.forbidden else _draw(logits[row], draw)
        for row, draw in enumerate(draws)
    ]


def uniform(seed: int, index: int, position: int) -> float:
    """The noise of one token: a number in [0, 1)."""
    bits = np.random.Philox(key=np.array([seed, index], np.uint64), counter=[position, 0, 0, 0])
    return float(np.random.Generator(bits).random())


def _draw(logits: Floats, draw: Draw) -> int:
    if draw.forbidden:
        logits = logits.copy()
        logits[list(draw.forbidden)] = -np.inf
    if draw.params.greedy:
        return int(np.argmax(logits))
    ids, probabilities = _candidates(logits, draw.params)
    cumulative = np.cumsum(probabilities)
    noise = uniform(draw.params.seed, draw.index, draw.position) * cumulative[-1]
    return int(ids[min(int(np.searchsorted(cumulative, noise, side="right")), len(ids) - 1)])


def _candidates(logits: Floats, params: SamplingParams) -> tuple[Ids, Weights]:
    """Ids that survive the filters and their weights (not normalised)."""
    weights = np.exp((logits.astype(np.float64) - float(logits.max())) / params.temperature)
    ids = np.arange(len(weights))
    if params.top_k and params.top_k < len(weights):
        ids = _largest(weights, params.top_k)
    if params.top_p < 1.0:
        ids = _nucleus(weights, ids, params.top_p)
    kept = weights[ids]
    survives = kept >= params.min_p  # the likeliest token's weight is exp(0) = 1
    return ids[survives], kept[survives]


def _nucleus(weights: Weights, ids: Ids, top_p: float) -> Ids:
    """The fewest likeliest of ``ids`` that hold the share ``top_p`` of their mass."""
    mass = top_p * float(weights[ids].sum())
    if len(ids) == len(weights):
        ids = _largest(weights, _FIRST_LOOK)
        if weights[ids].sum() < mass:
            ids = _largest(weights, len(weights))
    else:
        ids = ids[np.argsort(-weights[ids], kind="stable")]
    mass_before = np.cumsum(weights[ids]) - weights[ids]
    return ids[: max(1, int((mass_before < mass).sum()))]


def _largest(weights: Weights, count: int) -> Ids:
    """Ids of the ``count`` largest weights, largest first; equal ones by id."""
    if count < len(weights):
        bound = np.partition(weights, -count)[-count]
        candidates = np.flatnonzero(weights >= bound)
    else:
        candidates = np.arange(len(weights))
    order = np.argsort(-weights[candidates], kind="stable")[:count]
    largest: Ids = candidates[order]
    return largest
