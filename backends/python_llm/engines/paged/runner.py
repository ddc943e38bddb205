"""The model behind the engine: a forward pass over a ragged batch, with the KV cache in numbered blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from python_llm.engines.paged.slice import Slice

__all__ = ["ForwardBatch", "ModelRunner", "build_batch"]

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """T tokens of B sequences, side by side.

    token_ids, positions: int64 [T]. past_lens: int32 [B], tokens already in the cache. subsequence_begins: int32
    [B + 1], where each sequence's tokens begin. block_indices: int32 [all blocks of all sequences], and
    block_begins: int32 [B + 1]. wanted: int64 [S], the tokens whose logits are wanted.
    """

    token_ids: Longs
    positions: Longs
    past_lens: Ints
    subsequence_begins: Ints
    block_indices: Ints
    block_begins: Ints
    wanted: Longs

    @property
    def longest(self) -> int:
        """The longest sequence in tokens, this step's included."""
        return int((self.past_lens + np.diff(self.subsequence_begins)).max())


class ModelRunner(Protocol):
    """A compiled model that owns ``block_count`` KV blocks of ``block_size`` tokens each."""

    block_size: int
    block_count: int
    vocab_size: int

    def forward(self, batch: ForwardBatch) -> npt.NDArray[np.float32]:
        """Write the batch's keys and values; return logits [S, vocabulary] (valid until the next call)."""

    def export_blocks(self, blocks: Sequence[int]) -> Mapping[str, npt.NDArray[Any]]:
        """Copy out the blocks' content, by cache tensor: arrays [len(blocks), ...]."""

    def import_blocks(self, blocks: Sequence[int], content: Mapping[str, npt.NDArray[Any]]) -> None:
        """Copy exported content into these blocks."""

    def close(self) -> None:
        """Give back the model's and the blocks' memory; nothing is run, exported or imported any more."""


def build_batch(plan: list[Slice]) -> ForwardBatch:
    """Lay the slices side by side."""
    counts = [part.count for part in plan]
    past = [part.sequence.computed for part in plan]
    begins = np.zeros(len(plan) + 1, np.int32)
    np.cumsum(counts, out=begins[1:])
    ends = begins[1:].tolist()
    block_begins = np.zeros(len(plan) + 1, np.int32)
    np.cumsum([len(part.sequence.blocks) for part in plan], out=block_begins[1:])
    tokens = [[*part.sequence.tokens[p : p + part.count], *part.drafts] for part, p in zip(plan, past, strict=True)]
    offsets: Longs = np.repeat(np.array(past, np.int64) - begins[:-1], counts)
    rows = [range(end - part.rows, end) for part, end in zip(plan, ends, strict=True)]
    return ForwardBatch(
        token_ids=np.fromiter(chain.from_iterable(tokens), np.int64, count=int(begins[-1])),
        positions=offsets + np.arange(int(begins[-1]), dtype=np.int64),
        past_lens=np.array(past, np.int32),
        subsequence_begins=begins,
        block_indices=np.fromiter(
            chain.from_iterable(part.sequence.blocks for part in plan), np.int32, count=int(block_begins[-1])
        ),
        block_begins=block_begins,
        wanted=np.array(list(chain.from_iterable(rows)), np.int64),
    )
