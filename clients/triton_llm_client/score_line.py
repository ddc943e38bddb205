"""One line of a file to score: a text, or token ids; and what its line of the output says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from python_llm.errors import CallerMistake, InvalidRequest, ServeError

__all__ = ["ScoreLine", "Scored", "perplexity", "read_score_lines"]

_KEYS = ("text", "input_ids", "custom_id")


@dataclass(frozen=True, slots=True)
class Scored:
    """Tokens that have others before them, and the sum of their natural log-probs."""

    tokens: int
    log_prob: float


def perplexity(log_prob: float, tokens: int) -> float | None:
    """Of the tokens in the sum; None of none."""
    return math.exp(-log_prob / tokens) if tokens else None


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """Line ``number`` of the input, from 1: a ``prompt``, a text or ids, or the ``error`` that it is."""

    number: int
    custom_id: str | None
    prompt: str | tuple[int, ...] = ""
    error: ServeError | None = None

    @staticmethod
    def read(number: int, raw: bytes) -> ScoreLine:
        """A line that cannot be read is a line with an error."""
        custom_id = None
        try:
            record = _parse(raw)
            custom_id = _custom_id(record)
            return ScoreLine(number, custom_id, _prompt(record))
        except InvalidRequest as error:
            return ScoreLine(number, custom_id, error=error)

    def identity(self) -> str | int:
        """What tells whether a line of the output answers this one."""
        return self.number if self.custom_id is None else self.custom_id

    def answer(self, scored: Scored) -> dict[str, Any]:
        return {
            **self._head(),
            "tokens": scored.tokens,
            "log_prob": scored.log_prob,
            "perplexity": perplexity(scored.log_prob, scored.tokens),
            "error": None,
        }

    def failure(self, error: ServeError) -> dict[str, Any]:
        return {**self._head(), "error": {"code": error.code, "reason": error.reason, "message": str(error)}}

    def _head(self) -> dict[str, Any]:
        return {"line": self.number} | ({} if self.custom_id is None else {"custom_id": self.custom_id})


def read_score_lines(path: Path) -> Iterator[ScoreLine]:
    """The lines of the file, blank ones left out.

    Raises:
        CallerMistake: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from (ScoreLine.read(number, raw) for number, raw in enumerate(file, 1) if raw.strip())
    except OSError as error:
        raise CallerMistake(f"input '{path}': {error.strerror}; it must be a readable file of JSON lines.") from error


def _parse(raw: bytes) -> Mapping[str, Any]:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("invalid_json", f"line: {error}; it must be one JSON value.") from error
    if isinstance(record, str):
        return {"text": record}
    if not isinstance(record, dict):
        raise InvalidRequest("invalid_json", f"line: {type(record).__name__}; it must be a text or an object.")
    for key in record:
        if key not in _KEYS:
            raise InvalidRequest("unknown_key", f"key '{key}': known keys are {', '.join(_KEYS)}.")
    return record


def _custom_id(record: Mapping[str, Any]) -> str | None:
    found = record.get("custom_id")
    if found is not None and not isinstance(found, str):
        raise InvalidRequest("wrong_type", f"custom_id {found!r}: it must be text.")
    return found


def _prompt(record: Mapping[str, Any]) -> str | tuple[int, ...]:
    text, ids = record.get("text"), record.get("input_ids")
    if (text is None) == (ids is None):
        raise InvalidRequest("one_prompt", "line: it must have exactly one of text and input_ids.")
    if ids is None:
        if not isinstance(text, str) or not text:
            raise InvalidRequest("wrong_type", f"text {text!r}: it must be text of at least one character.")
        return text
    if not isinstance(ids, list) or not ids or not all(type(each) is int and 0 <= each < 1 << 31 for each in ids):
        raise InvalidRequest("wrong_type", "input_ids: it must be a list of at least one token id.")
    return tuple(ids)
