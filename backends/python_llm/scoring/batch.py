"""Rows of unequal length through a runner: grouped by length, padded, run, handed on one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from python_llm.scoring.runner import Floats, Ints, ScoreRunner

__all__ = ["plan_runs", "run_rows"]


def plan_runs(lengths: Sequence[int], most_tokens: int, most_rows: int = 0) -> list[list[int]]:
    """Indices of the rows of each run, longest first: rows of like length waste the least padding.

    A run has at most ``most_tokens`` tokens, padding included, but for a row that is longer alone; ``most_rows``
    bounds its rows, 0 does not.
    """
    runs: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        last = runs[-1] if runs else []
        fits = bool(last) and lengths[last[0]] * (len(last) + 1) <= most_tokens
        if fits and (not most_rows or len(last) < most_rows):
            last.append(index)
        else:
            runs.append([index])
    return runs


def run_rows(
    runner: ScoreRunner, rows: Sequence[Ints], most_tokens: int, most_rows: int = 0
) -> Iterator[tuple[int, Floats]]:
    """(index, logits [length, vocabulary]) of each row, in the order of the runs; valid until the next one."""
    for run in plan_runs([len(row) for row in rows], most_tokens, most_rows):
        ids, mask = _padded([rows[index] for index in run])
        logits = runner.logits(ids, mask)
        for place, index in enumerate(run):
            yield index, logits[place, : len(rows[index])]


def _padded(rows: Sequence[Ints]) -> tuple[Ints, Ints]:
    """[rows, longest] of ids and mask; padding, of id 0, stands behind the tokens."""
    shape = len(rows), max(map(len, rows))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return ids, mask
