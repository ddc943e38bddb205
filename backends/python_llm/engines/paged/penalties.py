"""What changes scores before a token is drawn: one pure function each.

``scores`` [vocabulary], float32 or float64, are logits, or log-probabilities in beam search (as transformers does).
No function changes its argument; where nothing is to change it returns the argument itself. Ids without a score
(beyond the vocabulary) are passed over: a model may have fewer rows than its tokenizer has tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = [
    "allow_only",
    "bad_words",
    "forbid",
    "frequency_penalty",
    "logit_bias",
    "no_repeat_ngrams",
    "presence_penalty",
    "repetition_penalty",
]

Scores = TypeVar("Scores", npt.NDArray[np.float32], npt.NDArray[np.float64])
Ids = npt.NDArray[np.int64]


def repetition_penalty(scores: Scores, seen: Ids, penalty: float) -> Scores:
    """Each id of ``seen`` (prompt and output) once: score / penalty where the score is above 0, else score * penalty.

    Keskar et al. 2019 (CTRL), section 4.1, with transformers' treatment of negative scores.
    """
    if penalty == 1.0 or not len(seen):
        return scores
    ids = _with_score(np.unique(seen), scores)
    changed = scores.copy()
    old = scores[ids]
    changed[ids] = np.where(old < 0, old * penalty, old / penalty)
    return changed


def presence_penalty(scores: Scores, output: Ids, penalty: float) -> Scores:
    """Score - penalty for each id that the output (resumed tokens included) holds. OpenAI's API reference."""
    if penalty == 0.0 or not len(output):
        return scores
    changed = scores.copy()
    changed[_with_score(np.unique(output), scores)] -= penalty
    return changed


def frequency_penalty(scores: Scores, output: Ids, penalty: float) -> Scores:
    """Score - penalty * count, with the id's count in the output (resumed tokens included). OpenAI's API reference."""
    if penalty == 0.0 or not len(output):
        return scores
    ids, counts = np.unique(output[output < len(scores)], return_counts=True)
    changed = scores.copy()
    changed[ids] -= penalty * counts
    return changed


def logit_bias(scores: Scores, bias: Sequence[tuple[int, float]]) -> Scores:
    """Score + bias for each named id; biases of one id add up. OpenAI's API reference."""
    if not bias:
        return scores
    ids = np.array([token_id for token_id, _ in bias], np.int64)
    values = np.array([value for _, value in bias], scores.dtype)
    changed = scores.copy()
    np.add.at(changed, ids[ids < len(scores)], values[ids < len(scores)])
    return changed


def no_repeat_ngrams(scores: Scores, seen: Ids, size: int) -> Scores:
    """-inf for each id that would complete an n-gram of ``size`` tokens that prompt and output hold already.

    Paulus et al. 2017, section 2.5 (there for trigrams); as transformers, the prompt counts.
    """
    starts = len(seen) - size + 1
    if size < 1 or starts < 1:
        return scores
    matches = np.ones(starts, np.bool_)
    for offset in range(size - 1):
        matches &= seen[offset : offset + starts] == seen[starts + offset]
    return forbid(scores, seen[size - 1 :][matches])


def bad_words(scores: Scores, tokens: Sequence[int], words: Sequence[Sequence[int]]) -> Scores:
    """-inf for the last id of each word whose other ids are the last of ``tokens`` (prompt and output).

    A word of one id is always banned. As transformers' NoBadWordsLogitsProcessor, but for one case that it misses: a
    word one token longer than all tokens so far can be completed too.
    """
    if not words:
        return scores
    last = tokens[-1] if len(tokens) else -1
    return forbid(scores, [word[-1] for word in words if word and (len(word) == 1 or _ends(tokens, last, word))])


def forbid(scores: Scores, token_ids: Collection[int] | Ids) -> Scores:
    """-inf for each of ``token_ids``."""
    if not len(token_ids):
        return scores
    changed = scores.copy()
    changed[_with_score(np.fromiter(token_ids, np.int64, len(token_ids)), scores)] = -np.inf
    return changed


def allow_only(scores: Scores, mask: npt.NDArray[np.uint32]) -> Scores:
    """-inf where the id's bit is 0: bit i % 32 of ``mask``'s word i // 32 is id i. Ids behind the mask have none."""
    bits = np.unpackbits(mask.astype("<u4", copy=False).view(np.uint8), count=len(scores), bitorder="little")
    changed = scores.copy()
    changed[bits == 0] = -np.inf
    return changed


def _ends(tokens: Sequence[int], last: int, word: Sequence[int]) -> bool:
    if word[-2] != last:  # the common case, kept cheap: there may be thousands of words
        return False
    head = len(word) - 1
    return len(tokens) >= head and tuple(tokens[-head:]) == tuple(word[:-1])


def _with_score(ids: Ids, scores: npt.NDArray[np.float32] | npt.NDArray[np.float64]) -> Ids:
    return ids[ids < len(scores)]
