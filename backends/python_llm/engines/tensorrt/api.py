"""The library's API as facts: what ``engine_options`` may say, checked before the library is imported.

``api.json`` holds names, types and defaults; what only the newer version has is marked, and the version that is
installed has the last word (`library`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from python_llm.records import RecordError

__all__ = ["SPECULATIVE", "check_options", "enum_values", "fields_of", "plain_type", "speculative_class"]

SPECULATIVE = "SpeculativeConfig"  # the library's union of the decoding configurations, told apart by decoding_type
_SCALARS: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}


@cache
def _facts() -> Mapping[str, Any]:
    facts: Mapping[str, Any] = json.loads(Path(__file__).with_name("api.json").read_text("utf-8"))
    return facts


@cache
def _classes() -> Mapping[str, Any]:
    return {full.rpartition(".")[2]: facts for full, facts in _facts()["classes"].items()}


def fields_of(name: str) -> Mapping[str, Mapping[str, Any]]:
    """The class's fields and their facts, those of its bases among them."""
    facts = _classes()[name]
    inherited = {field: row for base in facts.get("bases", ()) for field, row in fields_of(base).items()}
    return {**inherited, **facts["fields"]}


def old_names(name: str) -> Mapping[str, str]:
    """New field name -> the name it has in older versions."""
    facts = _classes()[name]
    inherited = {new: old for base in facts.get("bases", ()) for new, old in old_names(base).items()}
    return {**inherited, **{new: old for old, new in facts.get("renamed", {}).items()}}


def enum_values(name: str) -> tuple[str, ...] | None:
    """The values of the enumeration ``name``; None where it is none."""
    found = (values for full, values in _facts()["enums"].items() if full.rpartition(".")[2] == name)
    return next((tuple(values) for values in found), None)


def is_class(name: str) -> bool:
    return name in _classes()


def plain_type(row: Mapping[str, Any]) -> str:
    text: str = row["type"]
    return text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else text


def speculative_class(values: Mapping[str, Any], backend: str, subject: str) -> str:
    """The class that ``decoding_type`` chooses, among those of the backend ``tensorrt`` or ``pytorch``."""
    known = {
        fields_of(name)["decoding_type"]["default"]: name
        for name, facts in _classes().items()
        if "decoding_type" in facts["fields"] and backend in facts["backends"]
    }
    wanted = values.get("decoding_type")
    if wanted not in known:
        raise RecordError(f"{subject}, key 'decoding_type': {wanted!r}; here it must be one of {', '.join(known)}.")
    return known[wanted]


def check_options(options: Mapping[str, Any], name: str, backend: str, subject: str) -> None:
    """Raises RecordError for a key that class ``name`` does not have, or a value of another type."""
    fields = fields_of(name)
    for key, value in options.items():
        if key not in fields:
            raise RecordError(f"{subject}: unknown key '{key}'{_nearest(key, name)}.")
        _check_value(value, fields[key], backend, f"{subject}, key '{key}'")


def _check_value(value: Any, row: Mapping[str, Any], backend: str, subject: str) -> None:
    wanted = plain_type(row)
    if value is None and row["type"].startswith("Optional["):
        return
    if is_class(wanted) or wanted == SPECULATIVE:
        if not isinstance(value, Mapping):
            raise RecordError(f"{subject}: {value!r}; it must be an object.")
        inner = speculative_class(value, backend, subject) if wanted == SPECULATIVE else wanted
        check_options(value, inner, backend, subject)
    elif wanted.startswith("Literal["):
        _check_one_of(value, tuple(wanted[8:].removesuffix("]").split(",")), subject)
    elif (values := enum_values(wanted)) is not None:
        _check_one_of(value, values, subject)
    elif wanted in _SCALARS and not _is(value, _SCALARS[wanted]):
        raise RecordError(f"{subject}: {value!r}; it must be of type {wanted}.")


def _check_one_of(value: Any, values: tuple[str, ...], subject: str) -> None:
    if value not in values:
        raise RecordError(f"{subject}: {value!r}; it must be one of {', '.join(values)}.")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _nearest(key: str, name: str) -> str:
    """The right key may stand a level deeper: its whole path is named."""
    paths = {path.rpartition(".")[2]: path for path in reversed(list(_paths(name)))}
    close = difflib.get_close_matches(key, paths, n=1)
    return f"; did you mean '{paths[close[0]]}'" if close else f"; known keys: {', '.join(sorted(fields_of(name)))}"


def _paths(name: str) -> Iterator[str]:
    fields = fields_of(name)
    yield from fields
    for field, row in fields.items():
        if is_class(plain_type(row)):
            yield from (f"{field}.{path}" for path in _paths(plain_type(row)))
