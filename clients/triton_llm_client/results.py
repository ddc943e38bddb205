"""The completion that the chunks of a request add up to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from triton_llm_client.chunks import Chunk
from triton_llm_client.log_probs import TokenText, TopLogProbs
from triton_llm_client.metrics import Metrics

__all__ = ["Choice", "Collector", "Completion"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choice:
    """One finished sequence; see Chunk. ``output_tokens`` counts as the server reports it, else the ids received."""

    index: int
    text: str
    output_ids: tuple[int, ...]
    finish_reason: str | None
    stop_reason: str | None
    output_tokens: int
    log_probs: tuple[float, ...] = ()
    top_log_probs: tuple[TopLogProbs, ...] = ()
    tokens: tuple[TokenText, ...] = ()
    log_prob_sum: float | None = None

    @staticmethod
    def of(index: int, chunks: Sequence[Chunk]) -> Choice:
        ids = tuple(chain.from_iterable(chunk.output_ids for chunk in chunks))
        counted = _last(chunk.output_tokens for chunk in chunks)
        return Choice(
            index=index,
            text="".join(chunk.text for chunk in chunks),
            output_ids=ids,
            finish_reason=_last(chunk.finish_reason for chunk in chunks),
            stop_reason=_last(chunk.stop_reason for chunk in chunks),
            output_tokens=len(ids) if counted is None else counted,
            log_probs=tuple(chain.from_iterable(chunk.log_probs for chunk in chunks)),
            top_log_probs=tuple(chain.from_iterable(chunk.top_log_probs for chunk in chunks)),
            tokens=tuple(chain.from_iterable(chunk.tokens for chunk in chunks)),
            log_prob_sum=_last(chunk.log_prob_sum for chunk in chunks),
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request: its ``choices`` by index, of beams the best first. ``text`` and what stands beside it are
    those of the first; ``output_tokens`` counts all.

    Times are measured here, in seconds from just before the request was sent: ``ttft_seconds`` to the first
    chunk that carries text or tokens (of an unstreamed request that is the whole answer; None if none came),
    ``total_seconds`` to the end. ``metrics`` are the server's own.
    """

    choices: tuple[Choice, ...]
    input_tokens: int | None
    seed: int | None
    ttft_seconds: float | None
    total_seconds: float
    request_id: str = ""
    prompt_log_probs: tuple[float, ...] = ()
    prompt_top_log_probs: tuple[TopLogProbs, ...] = ()
    prompt_tokens: tuple[TokenText, ...] = ()
    metrics: Metrics | None = None

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def output_ids(self) -> tuple[int, ...]:
        return self.choices[0].output_ids

    @property
    def finish_reason(self) -> str | None:
        return self.choices[0].finish_reason

    @property
    def stop_reason(self) -> str | None:
        return self.choices[0].stop_reason

    @property
    def log_probs(self) -> tuple[float, ...]:
        return self.choices[0].log_probs

    @property
    def top_log_probs(self) -> tuple[TopLogProbs, ...]:
        return self.choices[0].top_log_probs

    @property
    def output_tokens(self) -> int:
        return sum(choice.output_tokens for choice in self.choices)


class Collector:
    """Adds up the chunks of one request and times them. Create it just before the request is sent."""

    def __init__(self, request_id: str = "") -> None:
        self.request_id = request_id
        self._started = time.perf_counter()
        self._first: float | None = None
        self._chunks: list[Chunk] = []

    def add(self, chunk: Chunk) -> None:
        if self._first is None and (chunk.text or chunk.output_ids):
            self._first = time.perf_counter()
        self._chunks.append(chunk)

    def completion(self) -> Completion:
        """The sum so far; call it when the stream has ended."""
        by_index: dict[int, list[Chunk]] = {}
        for chunk in self._chunks:
            by_index.setdefault(chunk.sequence_index, []).append(chunk)
        told = self._chunks[0] if self._chunks else Chunk("")
        return Completion(
            choices=tuple(Choice.of(*item) for item in sorted(by_index.items())) or (Choice.of(0, []),),
            input_tokens=_last(chunk.input_tokens for chunk in self._chunks),
            seed=_last(chunk.seed for chunk in self._chunks),
            ttft_seconds=None if self._first is None else self._first - self._started,
            total_seconds=time.perf_counter() - self._started,
            request_id=self.request_id,
            prompt_log_probs=told.prompt_log_probs,
            prompt_top_log_probs=told.prompt_top_log_probs,
            prompt_tokens=told.prompt_tokens,
            metrics=_last(chunk.metrics for chunk in self._chunks),
        )


def _last(values: Iterable[T | None]) -> T | None:
    found = None
    for value in values:
        if value is not None:
            found = value
    return found
