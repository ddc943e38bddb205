"""Teacher-forced logits of the model as the engine serves it: the same runner, weights, KV blocks and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from python_llm.engine import GenerateRequest
from python_llm.engines.paged.runner import ModelRunner, build_batch
from python_llm.engines.paged.sequence import Sequence as Tokens
from python_llm.engines.paged.slice import Slice
from python_llm.errors import InvalidRequest

__all__ = ["PagedScorer"]


class PagedScorer:
    """See ``python_llm.engine.Scorer``. It runs on its caller's thread; the runner is its own."""

    def __init__(self, runner: ModelRunner, *, chunk: int) -> None:
        self._runner = runner
        self._chunk = chunk

    def logits(self, token_ids: Sequence[int]) -> Iterator[npt.NDArray[np.float32]]:
        runner = self._runner
        text = Tokens(GenerateRequest("score", tuple(token_ids), max_tokens=0), lambda event: None, arrival=0)
        text.blocks = list(range(text.blocks_for(len(token_ids), runner.block_size)))
        if len(text.blocks) > runner.block_count:
            raise InvalidRequest(
                "request_too_long",
                f"text of {len(token_ids)} tokens: the cache holds {runner.block_count * runner.block_size} tokens; "
                "shorten it.",
            )
        while text.remaining:
            count = min(self._chunk, text.remaining)
            batch = build_batch([Slice(text, count, samples=False)])
            yield runner.forward(replace(batch, wanted=np.arange(count, dtype=np.int64)))
            text.computed += count
