"""One line of a batch: what it asks for, and what its line of the output says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from python_llm.errors import CallerMistake, InvalidRequest, ServeError
from triton_llm_client.batch_fields import text_field
from triton_llm_client.batch_openai import OPENAI_KEYS, openai_form
from triton_llm_client.batch_simple import SimpleForm
from triton_llm_client.batch_work import Work
from triton_llm_client.results import Completion

__all__ = ["Form", "Line", "identity", "read_lines"]


class Form(Protocol):
    """The form in which a line asks and is answered."""

    def read(self, record: Any) -> Work:
        """What the line asks for; raises InvalidRequest."""

    def answer(self, line: Line, model: str, completion: Completion) -> dict[str, Any]: ...

    def failure(self, line: Line, error: ServeError) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Line:
    """Line ``number`` of the input, from 1. It holds either ``work`` or the ``error`` that it is."""

    number: int
    custom_id: str | None
    form: Form
    work: Work | None = None
    error: ServeError | None = None

    @staticmethod
    def read(number: int, raw: bytes) -> Line:
        """A line that cannot be read is a line with an error."""
        custom_id: str | None = None
        form: Form = SimpleForm()
        try:
            record = _parse(raw)
            if isinstance(record, Mapping):
                if OPENAI_KEYS & record.keys():
                    form = openai_form(record)
                custom_id = text_field(record, "custom_id")
            return Line(number, custom_id, form, work=form.read(record))
        except ServeError as error:
            return Line(number, custom_id, form, error=error)

    def identity(self) -> str | int:
        """What tells whether a line of the output answers this one."""
        return self.number if self.custom_id is None else self.custom_id


def identity(result: Mapping[str, Any]) -> str | int | None:
    """Of the line that a line of the output answers."""
    custom_id = result.get("custom_id")
    return custom_id if custom_id is not None else result.get("line")


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a batch, blank ones left out.

    Raises:
        CallerMistake: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            first: dict[str, int] = {}  # custom_id -> the line that has it
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    line = Line.read(number, raw)
                    yield line if line.custom_id is None else _once(line, first.setdefault(line.custom_id, number))
    except OSError as error:
        raise CallerMistake(f"input '{path}': {error.strerror}; it must be a readable file of JSON lines.") from error


def _once(line: Line, first: int) -> Line:
    if line.number == first:
        return line
    error = InvalidRequest(
        "duplicate_custom_id",
        f"custom_id '{line.custom_id}': line {first} has it already; give each line one of its own.",
    )
    return replace(line, work=None, error=error)


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("invalid_json", f"line: {error}; it must be one JSON value.") from error
