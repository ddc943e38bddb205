"""How far one sequence of an answer has come, and the request that goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from triton_llm_client import Chunk, GenerateParams

__all__ = ["Progress"]

_OF_THE_PROMPT: Mapping[str, Any] = {"return_prompt_log_probs": None}  # told once, before the first token


@dataclass(slots=True)
class Progress:
    """``ids``: all tokens of sequence ``index`` whose text the caller has, those it came with included.

    ``told_log_prob``: their log-probs' sum, less what the caller came with. ``full``: a server said that no further
    token fits.
    """

    index: int
    ids: list[int] = field(default_factory=list)
    told_log_prob: float = 0.0
    ended: bool = False
    full: bool = False
    _base_log_prob: float = 0.0

    def told(self, chunk: Chunk) -> Chunk:
        """Take the chunk in, and return it as one of an unbroken stream."""
        self.ids.extend(chunk.output_ids)
        self.ended = self.ended or chunk.finish_reason is not None
        if chunk.log_prob_sum is None:
            return chunk
        self.told_log_prob = self._base_log_prob + chunk.log_prob_sum
        return replace(chunk, log_prob_sum=self.told_log_prob) if self._base_log_prob else chunk

    def spent(self, params: GenerateParams) -> bool:
        """All tokens it may have are out; only its end was not told."""
        return self.full or (params.max_tokens is not None and 0 < params.max_tokens <= len(self.ids))

    def going_on(self, params: GenerateParams) -> GenerateParams:
        """The request for the rest of this sequence alone.

        Where nothing is left to generate, it asks for the last token once more: the answer's end tells the usage.
        """
        self._base_log_prob = self.told_log_prob
        ids = self.ids[:-1] if self.spent(params) else self.ids
        asks_more = params.return_log_probs or params.return_logprobs
        return replace(
            params,
            num_return_sequences=None,
            resume_ids=tuple(ids),
            resume_index=self.index,
            top_log_probs=params.top_log_probs if asks_more else None,
            **_OF_THE_PROMPT,
        )

    def last(self, chunk: Chunk) -> Chunk | None:
        """Of the answer to a request for a spent sequence: its end, without the token that is out already."""
        if chunk.finish_reason is None:
            return None
        self.ended = True
        return Chunk(
            "",
            (),
            self.index,
            "length",
            input_tokens=chunk.input_tokens,
            output_tokens=len(self.ids),
            seed=chunk.seed,
            stop_reason=None if chunk.stop_reason is None else "",
            log_prob_sum=None if chunk.log_prob_sum is None else self.told_log_prob,
            metrics=chunk.metrics,
        )
