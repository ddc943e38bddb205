"""What follows from a row's logits: log-probs of its tokens, and the likeliest alternatives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from python_llm.scoring.runner import Floats, Ints

__all__ = ["log_softmax", "token_log_probs", "top_tokens"]

_ROWS = 64  # at a time: a vocabulary's worth of each is copied


def log_softmax(logits: Floats) -> Floats:
    """Natural logs of the softmax over the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def token_log_probs(logits: Floats, ids: Ints) -> Floats:
    """Log-prob of each of ``ids`` [n] given the ones before it, from ``logits`` [n, vocabulary]; the first has 0."""
    found = np.zeros(len(ids), np.float32)
    for begin in range(0, len(ids) - 1, _ROWS):
        end = min(begin + _ROWS, len(ids) - 1)
        rows = log_softmax(logits[begin:end])
        found[begin + 1 : end + 1] = rows[np.arange(end - begin), ids[begin + 1 : end + 1]]
    return found


def top_tokens(logits: Floats, count: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """The ``count`` likeliest tokens behind each token, likeliest first, of equal ones the lower id: ids, log-probs.

    Both [n, count].
    """
    ids = np.zeros((len(logits), count), np.int32)
    log_probs = np.zeros((len(logits), count), np.float32)
    for begin in range(0, len(logits) if count else 0, _ROWS):
        rows = log_softmax(logits[begin : begin + _ROWS])
        end = begin + len(rows)
        least = np.partition(rows, -count, axis=1)[:, -count]
        for place, (row, bound) in enumerate(zip(rows, least, strict=True), begin):
            candidates = np.flatnonzero(row >= bound)
            ids[place] = candidates[np.argsort(-row[candidates], kind="stable")][:count]
        log_probs[begin:end] = np.take_along_axis(rows, ids[begin:end], 1)
    return ids, log_probs
