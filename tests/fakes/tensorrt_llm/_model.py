"""The toy model: logits that a digest of the context decides, and the sampling the library documents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Logprob", "ToyModel", "choose", "is_greedy", "log_softmax", "top"]

Row = npt.NDArray[np.float64]


class Logprob(NamedTuple):
    """As the library tells one token's log-probability; ``rank`` from 1."""

    logprob: float
    rank: int


class ToyModel:
    """``echo``: the likeliest token is the prompt's, in a circle."""

    def __init__(self, vocab_size: int, *, echo: bool = False) -> None:
        self.vocab_size = vocab_size
        self._echo = echo

    def logits(self, prompt: Sequence[int], made: Sequence[int], flavour: str = "") -> Row:
        """Of the next token; ``flavour``: an adapter's name."""
        context = np.asarray([*prompt, *made], dtype=np.int64).tobytes() + flavour.encode()
        seed = int.from_bytes(hashlib.blake2b(context, digest_size=8).digest(), "little")
        row: Row = np.random.default_rng(seed).standard_normal(self.vocab_size) * 2.0
        if self._echo:
            row[prompt[len(made) % len(prompt)]] += 1000.0
        return row


def log_softmax(row: Row) -> Row:
    shifted = row - row.max()
    result: Row = shifted - np.log(np.exp(shifted).sum())
    return result


def top(log_probs: Row, count: int) -> list[int]:
    """The likeliest ids, equal ones by id."""
    order = np.argsort(-log_probs, kind="stable")
    return [int(i) for i in order[:count]]


def is_greedy(params: Any) -> bool:
    unset = params.temperature is None and params.top_p is None and params.top_k is None
    return unset or params.top_k == 1 or params.top_p == 0 or params.temperature == 0


def choose(logits: Row, params: Any, prompt: Sequence[int], made: Sequence[int]) -> int:
    """The next token; the noise depends on (seed, position), and no seed is seed 0."""
    row = _adjusted(logits, params, prompt, made)
    if is_greedy(params):
        return int(np.argmax(row))
    log_probs = log_softmax(row / (1.0 if params.temperature is None else params.temperature))
    kept = _kept(log_probs, params)
    noise = np.random.default_rng([params.seed or 0, len(made)]).gumbel(size=len(row))
    return int(np.argmax(np.where(kept, log_probs + noise, -np.inf)))


def _adjusted(logits: Row, params: Any, prompt: Sequence[int], made: Sequence[int]) -> Row:
    """Penalties look at the prompt too, as in the library."""
    row = logits.copy()
    ids, counts = np.unique(np.asarray([*prompt, *made], dtype=np.int64), return_counts=True)
    repetition = params.repetition_penalty or 1.0
    row[ids] = np.where(row[ids] > 0, row[ids] / repetition, row[ids] * repetition)
    row[ids] -= (params.presence_penalty or 0.0) + (params.frequency_penalty or 0.0) * counts
    if params.embedding_bias is not None:
        row += np.asarray(params.embedding_bias, dtype=np.float64)
    row[[*_banned(params, [*prompt, *made]), *_repeats([*prompt, *made], params.no_repeat_ngram_size)]] = -np.inf
    if len(made) < (params.min_tokens or 0) and params.end_id is not None and params.end_id >= 0:
        row[params.end_id] = -np.inf
    return row


def _banned(params: Any, context: Sequence[int]) -> list[int]:
    """Last tokens of the banned words that the context has begun; a word's ids count where ``bad`` is set, as there."""
    words = [[token_id] for token_id in params.bad_token_ids or ()]
    if params.bad is not None:
        if params._bad_word_ids is None:
            raise RuntimeError("bad: it was not made into token ids")
        words += params._bad_word_ids
    return [word[-1] for word in words if list(context[len(context) - len(word) + 1 :]) == word[:-1]]


def _repeats(context: Sequence[int], size: int | None) -> list[int]:
    if not size or len(context) < size:
        return []
    tail = tuple(context[len(context) - size + 1 :])
    runs = (tuple(context[i : i + size]) for i in range(len(context) - size + 1))
    return [run[-1] for run in runs if run[:-1] == tail]


def _kept(log_probs: Row, params: Any) -> npt.NDArray[np.bool_]:
    order = np.argsort(-log_probs, kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    probabilities = np.exp(log_probs)
    before = np.cumsum(probabilities[order]) - probabilities[order]
    kept = before[ranks] < (params.top_p or 1.0)
    kept &= ranks < (params.top_k or len(order))
    kept &= probabilities >= (params.min_p or 0.0) * probabilities.max()
    result: npt.NDArray[np.bool_] = kept
    return result
