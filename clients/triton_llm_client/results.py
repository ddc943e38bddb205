"""What comes back: chunks of a stream, and the completion they add up to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

__all__ = ["Chunk", "Collector", "Completion"]

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_FIELDS = frozenset(
    {
        "text_output",
        "output_ids",
        "sequence_index",
        "finish_reason",
        "num_input_tokens",
        "num_output_tokens",
        "seed_used",
    }
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One response: a delta of sequence ``sequence_index``.

    The concatenated ``text`` of a sequence's chunks is its full text. ``output_ids`` are the tokens whose text is
    all out by now. ``finish_reason`` (stop, length, cancelled, timeout, error) stands in the sequence's last chunk,
    else None. Counts are tokens so far and None where the server did not send them. ``more`` holds any other
    output by tensor name.
    """

    text: str
    output_ids: tuple[int, ...] = ()
    sequence_index: int = 0
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seed: int | None = None
    more: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)

    @staticmethod
    def of(outputs: Mapping[str, tuple[Any, ...]]) -> Chunk:
        """Build a chunk from a response's outputs: tensor name -> flat values."""
        return Chunk(
            text="".join(outputs.get("text_output", ())),
            output_ids=outputs.get("output_ids", ()),
            sequence_index=_first(outputs, "sequence_index") or 0,
            finish_reason=_first(outputs, "finish_reason") or None,
            input_tokens=_first(outputs, "num_input_tokens"),
            output_tokens=_first(outputs, "num_output_tokens"),
            seed=_first(outputs, "seed_used"),
            more=_NOTHING if _FIELDS.issuperset(outputs) else {k: v for k, v in outputs.items() if k not in _FIELDS},
        )


def _first(outputs: Mapping[str, tuple[Any, ...]], name: str) -> Any:
    values = outputs.get(name)
    return values[0] if values else None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request.

    Times are measured here, in seconds from just before the request was sent: ``ttft_seconds`` to the first
    chunk that carries text or tokens (of an unstreamed request that is the whole answer; None if none came),
    ``total_seconds`` to the end. ``output_tokens`` counts as the server reports it, else the ids received.
    """

    text: str
    output_ids: tuple[int, ...]
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int
    seed: int | None
    ttft_seconds: float | None
    total_seconds: float
    request_id: str = ""


class Collector:
    """Adds up the chunks of one sequence and times them. Create it just before the request is sent."""

    def __init__(self, request_id: str = "", sequence_index: int = 0) -> None:
        self.request_id = request_id
        self._index = sequence_index
        self._started = time.perf_counter()
        self._first: float | None = None
        self._chunks: list[Chunk] = []

    def add(self, chunk: Chunk) -> None:
        if chunk.sequence_index != self._index:
            return
        if self._first is None and (chunk.text or chunk.output_ids):
            self._first = time.perf_counter()
        self._chunks.append(chunk)

    def completion(self) -> Completion:
        """The sum so far; call it when the stream has ended."""
        ids = tuple(token for chunk in self._chunks for token in chunk.output_ids)
        counted = _last(chunk.output_tokens for chunk in self._chunks)
        return Completion(
            text="".join(chunk.text for chunk in self._chunks),
            output_ids=ids,
            finish_reason=_last(chunk.finish_reason for chunk in self._chunks),
            input_tokens=_last(chunk.input_tokens for chunk in self._chunks),
            output_tokens=len(ids) if counted is None else counted,
            seed=_last(chunk.seed for chunk in self._chunks),
            ttft_seconds=None if self._first is None else self._first - self._started,
            total_seconds=time.perf_counter() - self._started,
            request_id=self.request_id,
        )


def _last(values: Iterable[T | None]) -> T | None:
    found = None
    for value in values:
        if value is not None:
            found = value
    return found
