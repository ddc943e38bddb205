"""The passes before the first request: every size of a decoding step, within the context and within the time."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.warm_up import warm_up


class _Runner:
    block_size = 16

    def __init__(self) -> None:
        self.batches: list[ForwardBatch] = []

    def forward(self, batch: ForwardBatch) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        self.batches.append(batch)
        return np.zeros((1, 8), np.float32)


@given(prompt=st.integers(1, 64), context=st.integers(1, 4096))
def test_every_step_fits_the_context_and_its_blocks(prompt: int, context: int) -> None:
    runner = _Runner()
    warm_up(runner, prompt=prompt, context=context)
    for batch in runner.batches:
        assert 0 <= batch.positions[0] == batch.past_lens[0]
        assert batch.longest <= context
        assert len(batch.block_indices) * runner.block_size >= batch.longest
        assert not batch.block_indices.any()  # the pool has one block at least


def test_each_size_is_seen_once_and_the_largest_behind_a_long_past() -> None:
    runner = _Runner()
    warm_up(runner, prompt=48, context=8192)
    assert Counter(len(batch.token_ids) for batch in runner.batches) == dict.fromkeys(range(1, 49), 1)
    assert [batch.longest for batch in runner.batches[:3]] == [1072, 1071, 1]


def test_a_slow_model_is_not_warmed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    runner = _Runner()
    warm_up(runner, prompt=48, context=8192, seconds=3.0)
    assert len(runner.batches) == 3
