"""The next token of each sequence from its logits, in numpy.

First what changes the scores: penalties, bias, no-repeat n-grams, bad words, forbidden ids, the grammar's mask. Then,
as in transformers' logits warpers: temperature, top-k, top-p, min-p. The noise of a token comes from a
counter-based generator keyed by (seed) and counted by (position, sequence index): it depends on nothing else, so
neighbours in the batch, chunking, preemption and resumption change no token but through the logits.
(Salmon et al. 2011, Philox.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from python_llm.engine import SamplingParams, TopLogProbs
from python_llm.engines.paged import penalties
from python_llm.engines.paged.log_probs import largest, token_log_prob

__all__ = ["BROKEN_LOGITS", "NOTHING_ALLOWED", "Choice", "Draw", "adjusted", "sample"]

Floats = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
_FIRST_LOOK = 256  # candidates that usually hold all of top_p's mass; where they do not, more are looked at
_SECOND_LOOK = 4096

NOTHING_ALLOWED = -1  # Choice.id where no token has a finite score
BROKEN_LOGITS = -2  # Choice.id where the scores hold NaN or +inf


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row's token depends on beside its logits.

    ``tokens`` are prompt, resumed and generated ids so far, the first ``prompt_count`` of them the prompt.
    ``forbidden`` ids cannot be drawn. ``mask``: uint32 [ceil(vocabulary / 32)], bit i % 32 of word i // 32 set where
    the grammar allows id i. ``log_probs`` asks for the token's own, with ``top_log_probs`` alternatives.
    """

    params: SamplingParams
    index: int
    position: int
    tokens: Sequence[int] = ()
    prompt_count: int = 0
    forbidden: frozenset[int] = frozenset()
    mask: npt.NDArray[np.uint32] | None = None
    log_probs: bool = False
    top_log_probs: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One row's token, or why there is none: ``id`` is then NOTHING_ALLOWED or BROKEN_LOGITS.

    ``log_prob`` and ``top`` are of the raw logits and there only where the draw asked for them.
    """

    id: int
    log_prob: float | None = None
    top: TopLogProbs = ()


def sample(logits: Floats, draws: list[Draw]) -> list[Choice]:
    """Choose one id per row of ``logits`` [rows, vocabulary]; the logits are not changed.

    A row from which nothing can be chosen says so in its own Choice and touches no other.
    """
    likeliest = np.argmax(logits, axis=1)  # NaN counts as the largest: so a row's peak tells whether it is sound
    peaks = np.take_along_axis(logits, likeliest[:, None], axis=1)[:, 0]
    rows = zip(logits, draws, likeliest.tolist(), peaks.tolist(), strict=True)
    return [
        Choice(token_id) if _is_plain(draw) and math.isfinite(peak) else _choose(row, draw, token_id, peak)
        for row, draw, token_id, peak in rows
    ]


def adjusted(scores: penalties.Scores, draw: Draw) -> penalties.Scores:
    """``scores`` [vocabulary] after all of the draw's extras: a changed copy, or ``scores`` itself without any."""
    params = draw.params
    if _looks_back(params):
        scores = _penalised(scores, draw)
    if params.logit_bias:
        scores = penalties.logit_bias(scores, params.logit_bias)
    if params.no_repeat_ngram_size:
        scores = penalties.no_repeat_ngrams(scores, np.array(draw.tokens, np.int64), params.no_repeat_ngram_size)
    if params.bad_words:
        scores = penalties.bad_words(scores, draw.tokens, params.bad_words)
    if draw.forbidden:
        scores = penalties.forbid(scores, draw.forbidden)
    return scores if draw.mask is None else penalties.allow_only(scores, draw.mask)


def _is_plain(draw: Draw) -> bool:
    """Greedy and nothing more; most rows are."""
    params = draw.params
    return (
        params.greedy
        and not (draw.forbidden or draw.log_probs or params.logit_bias or params.bad_words)
        and not (params.no_repeat_ngram_size or _looks_back(params))
        and draw.mask is None
    )


def _looks_back(params: SamplingParams) -> bool:
    return params.repetition_penalty != 1.0 or params.presence_penalty != 0.0 or params.frequency_penalty != 0.0


def _penalised(scores: penalties.Scores, draw: Draw) -> penalties.Scores:
    params, seen = draw.params, np.array(draw.tokens, np.int64)
    output = seen[draw.prompt_count :]
    scores = penalties.repetition_penalty(scores, seen, params.repetition_penalty)
    scores = penalties.presence_penalty(scores, output, params.presence_penalty)
    return penalties.frequency_penalty(scores, output, params.frequency_penalty)


def _choose(row: Floats, draw: Draw, likeliest: int, peak: float) -> Choice:
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is told by the peak
        scores = adjusted(row, draw) if math.isfinite(peak) else row
    if scores is not row:
        likeliest = int(np.argmax(scores))
        peak = float(scores[likeliest])
    if not math.isfinite(peak):
        return Choice(NOTHING_ALLOWED if peak == -math.inf else BROKEN_LOGITS)
    token_id = likeliest if draw.params.greedy else _draw(scores, draw)
    if not draw.log_probs:
        return Choice(token_id)
    return Choice(token_id, *token_log_prob(row, token_id, draw.top_log_probs))


def uniform(seed: int, index: int, position: int) -> float:
    """The noise of one token: a number in [0, 1)."""
    bits = np.random.Philox(key=np.array([seed, index], np.uint64), counter=[position, 0, 0, 0])
    return float(np.random.Generator(bits).random())


def _draw(logits: Floats, draw: Draw) -> int:
    ids, probabilities = _candidates(logits, draw.params)
    cumulative = np.cumsum(probabilities)
    noise = uniform(draw.params.seed, draw.index, draw.position) * cumulative[-1]
    return int(ids[min(int(np.searchsorted(cumulative, noise, side="right")), len(ids) - 1)])


def _candidates(logits: Floats, params: SamplingParams) -> tuple[Ids, Weights]:
    """Ids that survive the filters and their weights (not normalised)."""
    weights = np.exp((logits.astype(np.float64) - float(logits.max())) / params.temperature)
    ids = np.arange(len(weights))
    if params.top_k and params.top_k < len(weights):
        ids = largest(weights, params.top_k)
    if params.top_p < 1.0:
        ids = _nucleus(weights, ids, params.top_p)
    kept = weights[ids]
    survives = (kept >= params.min_p) & (kept > 0.0)  # the likeliest token's weight is exp(0) = 1
    return ids[survives], kept[survives]


def _nucleus(weights: Weights, ids: Ids, top_p: float) -> Ids:
    """The fewest likeliest of ``ids`` that hold the share ``top_p`` of their mass."""
    mass = top_p * float(weights[ids].sum())
    if len(ids) == len(weights):
        for count in (_FIRST_LOOK, _SECOND_LOOK, len(weights)):
            ids = largest(weights, count)
            if weights[ids].sum() >= mass:
                break
    else:
        ids = ids[np.argsort(-weights[ids], kind="stable")]
    mass_before = np.cumsum(weights[ids]) - weights[ids]
    return ids[: max(1, int((mass_before < mass).sum()))]
