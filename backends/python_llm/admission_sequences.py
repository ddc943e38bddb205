"""How many sequences a request makes, and beams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from python_llm.admission_bounds import whole_up_to
from python_llm.bounds import real, whole
from python_llm.engine import BeamParams, Capabilities, EngineLimits
from python_llm.errors import InvalidRequest, Unsupported

__all__ = ["Sequences", "read_sequences"]

_MOST_SEQUENCES = 64
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Sequences:
    count: int
    first_index: int
    beam: BeamParams | None


def read_sequences(values: Values, capabilities: Capabilities, limits: EngineLimits) -> Sequences:
    most = min(limits.max_running, _MOST_SEQUENCES)
    width = whole(values, "beam_width", 1, max(1, capabilities.max_beam_width), default=1)
    if width > 1:
        count = whole_up_to(values, "num_return_sequences", 1, "beam_width", width, default=width)
    else:
        count = whole(values, "num_return_sequences", 1, most, default=1)
    index = whole(values, "resume_index", 0, _MOST_SEQUENCES - 1, default=0)
    if count > 1 and width == 1 and not capabilities.sequences:
        raise Unsupported(
            "not_supported", "num_return_sequences: this engine has no such ability; send several requests."
        )
    beam = BeamParams(width, _length_penalty(values), bool(_early_stopping(values))) if width > 1 else None
    _refuse(values, _WITH_BEAMS if beam else _WITHOUT_BEAMS)
    if count > 1 or beam:
        _refuse(values, _OF_ONE_SEQUENCE)
    return Sequences(count, index, beam)


def _length_penalty(values: Values) -> float:
    return real(values, "length_penalty", -10.0, 10.0, default=1.0)


def _early_stopping(values: Values) -> int:
    return whole(values, "early_stopping", 0, 1, default=0)


def _samples(values: Values) -> bool:
    """Clients of NVIDIA's models send a temperature of 1 with their beams: it changes nothing."""
    return (
        values.get("temperature", 0.0) not in (0.0, 1.0)
        or values.get("top_k", 0) > 1
        or 0.0 < values.get("top_p", 1.0) < 1.0
        or values.get("min_p", 0.0) > 0.0
    )


@dataclass(frozen=True)
class _Rule:
    """A combination that is refused."""

    broken: Callable[[Values], bool]
    reason: str
    text: str


_WITH_BEAMS: Sequence[_Rule] = (
    _Rule(
        lambda v: bool(v.get("stream")),
        "beams_do_not_stream",
        "stream: true with beam_width above 1; the best beam is known only at the end: send stream false.",
    ),
    _Rule(
        _samples,
        "beams_do_not_sample",
        "temperature, top_k, top_p, min_p: with beam_width above 1 nothing is sampled; leave them out.",
    ),
    _Rule(
        lambda v: bool(v.get("guided_decoding_guide_type")),
        "beams_take_no_guide",
        "guided_decoding_guide_type: with beam_width above 1 there is no guide; send beam_width 1.",
    ),
)
_WITHOUT_BEAMS: Sequence[_Rule] = (
    _Rule(
        lambda v: _length_penalty(v) not in (0.0, 1.0),
        "needs_beams",
        "length_penalty: it weighs beams; send beam_width above 1, or leave it out.",
    ),
    _Rule(
        lambda v: bool(_early_stopping(v)),
        "needs_beams",
        "early_stopping: it ends a beam search; send beam_width above 1, or leave it out.",
    ),
)
_OF_ONE_SEQUENCE: Sequence[_Rule] = (
    _Rule(
        lambda v: bool(v.get("resume_ids") or v.get("resume_index")),
        "resume_one_sequence",
        "resume_ids, resume_index: one sequence is resumed at a time; send num_return_sequences 1 and beam_width 1.",
    ),
)


def _refuse(values: Values, rules: Sequence[_Rule]) -> None:
    for rule in rules:
        if rule.broken(values):
            raise InvalidRequest(rule.reason, rule.text)
