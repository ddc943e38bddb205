"""The passes that a model makes before its first request.

The plugin compiles its kernels for a step of N tokens in the first such step, which takes half as long again, and
grows its memory with the first long context. Steps that decode are small, so that each size of theirs is made once;
prompts have any size, of which one is made.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np
import numpy.typing as npt

from python_llm.engines.paged.runner import ForwardBatch

__all__ = ["warm_up"]

_PAST = 1024  # tokens
_SECONDS = 3.0  # a large model makes its own steps' kernels in less time than it takes for them


class _Runner(Protocol):
    block_size: int

    def forward(self, batch: ForwardBatch) -> npt.NDArray[np.float32]: ...


def warm_up(runner: _Runner, *, prompt: int, context: int, seconds: float = _SECONDS) -> None:
    """Steps of ``prompt`` tokens and of fewer, some behind a long past; none begins after ``seconds``.

    They write to the first block alone, and nothing remembers what is there.
    """
    deadline = time.monotonic() + seconds
    prompt = min(prompt, context)
    past = min(_PAST, context - prompt)
    small = [(count, 0) for count in range(1, prompt - 1)]
    for count, behind in [(prompt, past), *[(prompt - 1, past)][: prompt - 1], *small]:  # one of each form goes far
        runner.forward(_step(count, behind, runner.block_size))
        if time.monotonic() >= deadline:
            return


def _step(count: int, past: int, block_size: int) -> ForwardBatch:
    blocks = -(-(past + count) // block_size)
    return ForwardBatch(
        token_ids=np.zeros(count, np.int64),
        positions=np.arange(past, past + count, dtype=np.int64),
        past_lens=np.array([past], np.int32),
        subsequence_begins=np.array([0, count], np.int32),
        block_indices=np.zeros(blocks, np.int32),
        block_begins=np.array([0, blocks], np.int32),
        wanted=np.array([count - 1], np.int64),
    )
