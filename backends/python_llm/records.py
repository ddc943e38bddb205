"""Strict reading of JSON objects into frozen dataclasses: unknown keys, missing keys and wrong types are errors."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from python_llm.errors import CallerMistake

__all__ = ["RecordError", "read_record"]

T = TypeVar("T")


class RecordError(CallerMistake):
    """A JSON object does not fit its record; the text says subject, value, rule and remedy."""


def read_record(kind: type[T], data: object, subject: str) -> T:
    """Build ``kind`` (a dataclass) from a JSON object; nested dataclasses are read the same way.

    Raises:
        RecordError: ``data`` is no object, a key is unknown or missing, or a value has the wrong type.
    """
    if not isinstance(data, Mapping):
        raise RecordError(f"{subject}: found {type(data).__name__}; it must be a JSON object.")
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise RecordError(f"{subject}: unknown key '{key}'{_nearest(str(key), fields)}.")
    missing = [name for name, f in fields.items() if name not in data and not _has_default(f)]
    if missing:
        raise RecordError(f"{subject}: missing {', '.join(missing)}; add the missing keys.")
    hints = typing.get_type_hints(kind)
    values = {key: _convert(hints[key], value, f"{subject}, key '{key}'") for key, value in data.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise RecordError(f"{subject}: {error}") from error


def _nearest(key: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean '{close[0]}'" if close else f"; known keys: {', '.join(sorted(known))}"


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _convert(hint: Any, value: Any, subject: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        inner = [arg for arg in args if arg is not type(None)]
        return _convert(inner[0], value, subject) if len(inner) == 1 else value
    if origin is typing.Literal:
        if value not in args:
            raise RecordError(f"{subject}: '{value}'; it must be one of {', '.join(map(str, args))}.")
        return value
    if dataclasses.is_dataclass(hint):
        return read_record(hint, value, subject)  # type: ignore[arg-type]
    if origin is tuple:
        _require(isinstance(value, (list, tuple)), subject, value, "a list")
        return tuple(_convert(args[0], item, subject) for item in value)
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        _require(isinstance(value, Mapping), subject, value, "an object")
        return {k: _convert(args[1], v, f"{subject}['{k}']") for k, v in value.items()} if args else dict(value)
    return _scalar(hint, value, subject)


def _scalar(hint: Any, value: Any, subject: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (int, float, str, bool):
        rule = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[hint]
        _require(type(value) is hint, subject, value, rule)
    return value


def _require(holds: bool, subject: str, value: object, rule: str) -> None:
    if not holds:
        raise RecordError(f"{subject}: {value!r}; it must be {rule}.")
