"""Rows of unequal length through a runner: every row once, within the bounds, with the logits it has alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from python_llm.scoring.batch import plan_runs, run_rows
from python_llm.scoring.reading import log_softmax, token_log_probs, top_tokens
from python_llm.scoring.runner import Floats, Ints

LENGTHS = st.lists(st.integers(1, 60), max_size=40)


@given(LENGTHS, st.integers(1, 200), st.integers(0, 5))
def test_every_row_is_in_one_run_and_no_run_is_too_large(lengths: list[int], tokens: int, rows: int) -> None:
    runs = plan_runs(lengths, tokens, rows)
    assert sorted(index for run in runs for index in run) == list(range(len(lengths)))
    for run in runs:
        assert len(run) == 1 or len(run) * max(lengths[index] for index in run) <= tokens
        assert not rows or len(run) <= rows


class SumRunner:
    """Logits that tell which ids and which mask a row was run with."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def logits(self, input_ids: Ints, attention_mask: Ints) -> Floats:
        self.shapes.append(input_ids.shape)
        seen = np.cumsum(input_ids * attention_mask, axis=1)
        found: Floats = np.stack([seen, attention_mask], axis=2).astype(np.float32)
        return found


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=1, max_size=12), st.integers(1, 40))
def test_a_row_has_the_logits_it_has_alone(rows: list[list[int]], tokens: int) -> None:
    arrays = [np.asarray(row, np.int64) for row in rows]
    found = {index: logits.copy() for index, logits in run_rows(SumRunner(), arrays, tokens)}
    assert set(found) == set(range(len(rows)))
    for index, row in enumerate(arrays):
        assert found[index][:, 0].tolist() == np.cumsum(row).tolist()
        assert found[index][:, 1].tolist() == [1.0] * len(row)


def test_sixteen_short_rows_are_one_run() -> None:
    runner = SumRunner()
    list(run_rows(runner, [np.ones(n, np.int64) for n in range(5, 21)], 2048))
    assert runner.shapes == [(16, 20)]


@given(st.integers(1, 80), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_log_probs_are_those_of_the_whole_table(length: int, count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.integers(-3, 4, (length, 7)).astype(np.float32)  # with many ties
    ids = generator.integers(0, 7, length)
    table = log_softmax(logits)
    np.testing.assert_allclose(np.exp(table).sum(1), 1.0, rtol=1e-5)
    expected = [0.0, *table[np.arange(length - 1), ids[1:]].tolist()]
    np.testing.assert_allclose(token_log_probs(logits, ids), expected, rtol=1e-6)
    top, log_probs = top_tokens(logits, count)
    order = np.argsort(-table, axis=1, kind="stable")[:, :count]
    assert top.tolist() == order.tolist()
    np.testing.assert_array_equal(log_probs, np.take_along_axis(table, order, 1))
