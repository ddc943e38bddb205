"""Log-probabilities of the model's own distribution: before temperature, penalties, bias and grammar.

log p(i) = logit(i) - log(sum of exp(logit)), natural, in float64 (shifted by the largest logit, so nothing overflows).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from python_llm.engine import TopLogProbs

__all__ = ["largest", "prompt_log_probs", "token_log_prob"]

Row = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Doubles = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
_BLOCK = 64


def token_log_prob(row: Row, token_id: int, top: int) -> tuple[float, TopLogProbs]:
    """The log-probability of ``token_id`` under the logits ``row`` [vocabulary], and the ``top`` likeliest ids.

    The alternatives are sorted by log-probability, largest first, equal ones by id; the token itself may be one.
    """
    log_probs = log_softmax(row)
    return float(log_probs[token_id]), _top(log_probs, top)


def prompt_log_probs(
    rows: npt.NDArray[np.float32], next_ids: Sequence[int], top: int
) -> tuple[tuple[float, ...], tuple[TopLogProbs, ...]]:
    """``token_log_prob`` of each of ``rows`` [n, vocabulary] for the n tokens that really followed.

    With ``top`` 0 there are no alternatives: the second tuple is empty.
    """
    found = [token_log_prob(row, token_id, top) for row, token_id in zip(rows, next_ids, strict=True)]
    return tuple(log_prob for log_prob, _ in found), tuple(each for _, each in found) if top else ()


def log_softmax(row: Row) -> Doubles:
    """See the module docstring; a row that holds NaN or +inf gives NaN."""
    with np.errstate(invalid="ignore"):
        shifted = row.astype(np.float64) - float(row.max())
        log_probs: Doubles = shifted - np.log(np.exp(shifted).sum())
    return log_probs


def largest(values: Doubles, count: int) -> Ids:
    """Ids of the ``count`` largest of ``values``, largest first; equal ones by id."""
    candidates = np.flatnonzero(values >= _bound(values, count)) if count < len(values) else np.arange(len(values))
    order = np.argsort(-values[candidates], kind="stable")[:count]
    ids: Ids = candidates[order]
    return ids


def _bound(values: Doubles, count: int) -> float:
    """A number that at least ``count`` values reach and few more: the count-th largest of blocks' maxima, or of all."""
    blocks = len(values) // _BLOCK
    peaks = values[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1) if count <= blocks else values
    return float(np.partition(peaks, -count)[-count])


def _top(log_probs: Doubles, count: int) -> TopLogProbs:
    if not count:
        return ()
    return tuple((int(i), float(log_probs[i])) for i in largest(log_probs, count))
