"""The answer to a job, filled in row by row as the runs come."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from python_llm.contract import SCORER
from python_llm.response import NUMPY
from python_llm.scoring.reading import token_log_probs, top_tokens
from python_llm.scoring.request import Job
from python_llm.scoring.runner import Floats

__all__ = ["Answer", "size_of"]


def _shapes(job: Job, vocab_size: int) -> Mapping[str, tuple[int, ...]]:
    """Of the outputs that are wanted."""
    rows, width = len(job.rows), job.width
    tables = {"logits": vocab_size, "top_ids": job.top_k, "top_log_probs": job.top_k}
    found: dict[str, tuple[int, ...]] = {}
    for row in SCORER.outputs:
        if row.name in job.outputs:
            found[row.name] = (rows, 1) if row.is_scalar else (rows, width)
            found[row.name] += (tables[row.name],) if row.name in tables else ()
    return found


def size_of(job: Job, vocab_size: int) -> int:
    """Bytes of the job's answer: all its tensors have elements of four."""
    return 4 * sum(math.prod(shape) for shape in _shapes(job, vocab_size).values())


class Answer:
    """``arrays`` is whole once every row was filled in."""

    def __init__(self, job: Job, vocab_size: int) -> None:
        dtypes = {row.name: NUMPY[row.dtype] for row in SCORER.outputs}
        self._job = job
        self.arrays: dict[str, npt.NDArray[np.generic]] = {
            name: np.zeros(shape, dtypes[name]) for name, shape in _shapes(job, vocab_size).items()
        }

    def fill(self, number: int, logits: Floats) -> None:
        """``logits`` [length, vocabulary] of row ``number``."""
        ids, begin = self._job.rows[number], self._job.begins[number]
        place = number, slice(begin, begin + len(ids))
        wanted = self._job.outputs
        if wanted & {"token_log_probs", "sum_log_probs"}:
            found = token_log_probs(logits, ids)
            self._put("token_log_probs", place, found)
            self._put("sum_log_probs", (number, 0), found.sum(dtype=np.float64))
        if wanted & {"top_ids", "top_log_probs"}:
            likeliest, log_probs = top_tokens(logits, self._job.top_k)
            self._put("top_ids", place, likeliest)
            self._put("top_log_probs", place, log_probs)
        self._put("logits", place, logits)
        self._put("num_scored", (number, 0), len(ids) - 1)
        self._put("scored_ids", place, ids)

    def _put(self, name: str, place: tuple[int, slice] | tuple[int, int], value: object) -> None:
        if name in self.arrays:
            self.arrays[name][place] = value
