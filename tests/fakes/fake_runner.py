"""A model runner without a model: its next token is a hash of all tokens it finds in its own numbered blocks.

So a wrong block table, a block reused too early, or a missing copy changes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from python_llm.engines.paged.runner import ForwardBatch

__all__ = ["FakeRunner", "fake_logits"]

_EMPTY = -1


def fake_logits(context: Sequence[int], vocab_size: int) -> npt.NDArray[np.float32]:
    """The logits behind ``context``: a function of every token of it."""
    digest = blake2b(np.array(context, np.int64).tobytes(), digest_size=8).digest()
    noise = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
    logits: npt.NDArray[np.float32] = noise.normal(0.0, 2.0, vocab_size).astype(np.float32)
    return logits


class FakeRunner:
    """``before_step`` is called on the engine's thread with the beginning step's number, from 1; it may raise."""

    def __init__(self, *, block_count: int, block_size: int = 4, vocab_size: int = 32) -> None:
        self.block_count = block_count
        self.block_size = block_size
        self.vocab_size = vocab_size
        self.before_step: Callable[[int], None] = lambda step: None
        self.steps = 0
        self.most_tokens = 0  # of one step
        self.most_sequences = 0
        self.closed = False
        self._slots = np.full((block_count, block_size), _EMPTY, np.int64)

    def forward(self, batch: ForwardBatch) -> npt.NDArray[np.float32]:
        self.steps += 1
        self.before_step(self.steps)
        self.most_tokens = max(self.most_tokens, len(batch.token_ids))
        self.most_sequences = max(self.most_sequences, len(batch.past_lens))
        self._write(batch)
        rows = [self._logits(batch, int(row)) for row in batch.wanted]
        return np.array(rows, np.float32).reshape(len(rows), self.vocab_size)

    def export_blocks(self, blocks: Sequence[int]) -> Mapping[str, npt.NDArray[Any]]:
        return {"slots": self._slots[list(blocks)]}

    def import_blocks(self, blocks: Sequence[int], content: Mapping[str, npt.NDArray[Any]]) -> None:
        self._slots[list(blocks)] = content["slots"]

    def close(self) -> None:
        """From now on any use is an error."""
        self.closed = True
        self._slots = np.empty((0, 0), np.int64)

    def _blocks(self, batch: ForwardBatch, index: int) -> list[int]:
        begin, end = batch.block_begins[index : index + 2]
        blocks: list[int] = batch.block_indices[begin:end].tolist()
        assert len(set(blocks)) == len(blocks), "a sequence has a block twice"
        return blocks

    def _write(self, batch: ForwardBatch) -> None:
        tables = [self._blocks(batch, index) for index in range(len(batch.past_lens))]
        written: dict[int, int] = {}
        for index, blocks in enumerate(tables):
            begin, end = batch.subsequence_begins[index : index + 2]
            positions = batch.positions[begin:end].tolist()
            assert positions == list(range(batch.past_lens[index], batch.past_lens[index] + end - begin))
            assert len(blocks) * self.block_size >= positions[-1] + 1, "a sequence lacks a block"
            for position, token_id in zip(positions, batch.token_ids[begin:end].tolist(), strict=True):
                block = blocks[position // self.block_size]
                self._slots[block, position % self.block_size] = token_id
                assert written.setdefault(block, index) == index, "two sequences write one block"
        for index, blocks in enumerate(tables):
            assert all(written.get(block, index) == index for block in blocks), "a shared block is written"

    def _logits(self, batch: ForwardBatch, row: int) -> npt.NDArray[np.float32]:
        index = int(np.searchsorted(batch.subsequence_begins, row, side="right")) - 1
        length = int(batch.positions[row]) + 1
        context = self._slots[self._blocks(batch, index)].reshape(-1)[:length]
        assert _EMPTY not in context, "a token was never computed"
        return fake_logits(context.tolist(), self.vocab_size)
