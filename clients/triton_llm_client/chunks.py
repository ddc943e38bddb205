"""What one response of the server says, sequence by sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from python_llm.errors import EngineFailure
from triton_llm_client.log_probs import TokenText, TopLogProbs, read_alternatives, read_prompt_tokens, read_tokens
from triton_llm_client.metrics import METRICS, Metrics

__all__ = ["Chunk", "chunks_of"]

Outputs = Mapping[str, tuple[Any, ...]]  # tensor name -> flat values

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_JUST_TEXT = {"text_output", "output_ids"}
_KNOWN = frozenset(METRICS) | {
    *_JUST_TEXT,
    "sequence_index",
    "finish_reason",
    "stop_reason",
    "num_input_tokens",
    "num_output_tokens",
    "seed_used",
    "cum_log_probs",
    "output_log_probs",
    "output_top_log_probs",
    "prompt_log_probs",
    "prompt_top_log_probs",
    "prompt_tokens",
    "logprobs",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A delta of sequence ``sequence_index``.

    The concatenated ``text`` of a sequence's chunks is its full text. ``output_ids`` are the tokens whose text is
    all out by now. ``finish_reason`` (stop, length, cancelled, timeout, error) stands in the sequence's last chunk,
    else None. Counts are tokens so far and None where the server did not send them.

    With ``return_log_probs``: ``log_probs`` of the tokens in ``output_ids``, ``log_prob_sum`` of the sequence so far;
    with ``top_log_probs`` as well: the ``top_log_probs`` of each; with ``return_logprobs``: the ``tokens`` themselves.
    What is told of the prompt stands in the request's first chunk, ``metrics`` in its last. ``more`` holds any other
    output by tensor name.
    """

    text: str
    output_ids: tuple[int, ...] = ()
    sequence_index: int = 0
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seed: int | None = None
    stop_reason: str | None = None
    log_probs: tuple[float, ...] = ()
    top_log_probs: tuple[TopLogProbs, ...] = ()
    tokens: tuple[TokenText, ...] = ()
    log_prob_sum: float | None = None
    prompt_log_probs: tuple[float, ...] = ()
    prompt_top_log_probs: tuple[TopLogProbs, ...] = ()
    prompt_tokens: tuple[TokenText, ...] = ()
    metrics: Metrics | None = None
    more: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False)


def chunks_of(outputs: Outputs, index: int = 0) -> tuple[Chunk, ...]:
    """The chunks of a response: one, or one for each sequence where it answers several at once.

    ``index``: which sequence it is where the response does not say.
    """
    texts = outputs.get("text_output", ())
    if len(texts) == 1 and outputs.keys() == _JUST_TEXT:  # most of a stream
        return (Chunk(texts[0], outputs["output_ids"], index),)
    if len(texts) <= 1:
        return (_chunk(outputs, _Part(0, 0, len(outputs.get("output_ids", ())), 1), index),)
    return tuple(_chunk(outputs, part, part.number) for part in _parts(outputs, len(texts)))


@dataclass(frozen=True, slots=True)
class _Part:
    """Where sequence ``number`` of ``count`` stands in a response: ``size`` ids from ``begin``."""

    number: int
    begin: int
    size: int
    count: int

    def one(self, outputs: Outputs, name: str) -> Any:
        values = outputs.get(name, ())
        return values[self.number] if len(values) > self.number else None

    def row(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of a table with a row for each sequence, filled up at the end."""
        begin = self.number * (len(values) // self.count)
        return values[begin : begin + self.size]


def _parts(outputs: Outputs, count: int) -> list[_Part]:
    sizes, ids = outputs.get("num_output_tokens", ()), outputs.get("output_ids", ())
    if len(sizes) != count or sum(sizes) != len(ids):
        raise EngineFailure(
            "unreadable_answer", f"answer: {len(ids)} output_ids of {count} sequences with {sizes} tokens; report it."
        )
    return [_Part(number, sum(sizes[:number]), size, count) for number, size in enumerate(sizes)]


def _chunk(outputs: Outputs, part: _Part, index: int) -> Chunk:
    said = part.one(outputs, "sequence_index")
    first, last = part.number == 0, part.number == part.count - 1
    return Chunk(
        text=part.one(outputs, "text_output") or "",
        output_ids=outputs.get("output_ids", ())[part.begin : part.begin + part.size],
        sequence_index=index if said is None else said,
        finish_reason=part.one(outputs, "finish_reason") or None,
        input_tokens=_first(outputs, "num_input_tokens"),
        output_tokens=part.one(outputs, "num_output_tokens"),
        seed=_first(outputs, "seed_used"),
        stop_reason=part.one(outputs, "stop_reason") or None,
        log_probs=part.row(outputs.get("output_log_probs", ())),
        top_log_probs=read_alternatives(part.one(outputs, "output_top_log_probs") or ""),
        tokens=read_tokens(part.one(outputs, "logprobs") or ""),
        log_prob_sum=part.one(outputs, "cum_log_probs"),
        prompt_log_probs=outputs.get("prompt_log_probs", ()) if first else (),
        prompt_top_log_probs=read_alternatives(_first(outputs, "prompt_top_log_probs") or "") if first else (),
        prompt_tokens=read_prompt_tokens(_first(outputs, "prompt_tokens") or "") if first else (),
        metrics=Metrics.of(outputs) if last else None,
        more=_NOTHING if _KNOWN.issuperset(outputs) else {k: v for k, v in outputs.items() if k not in _KNOWN},
    )


def _first(outputs: Outputs, name: str) -> Any:
    values = outputs.get(name)
    return values[0] if values else None
