"""Which version this is, and the classes that the API facts describe for it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import python_llm

__all__ = ["API", "HAS_ENGINES", "IS_NEW", "VERSION", "Fields", "fields_of", "make"]

VERSION = os.environ.get("TENSORRT_LLM_FAKE_VERSION", "1.2.1")
IS_NEW = VERSION.startswith("1.3")
HAS_ENGINES = not (IS_NEW and "rc" not in VERSION)  # the engine path goes with 1.3
API: Mapping[str, Any] = json.loads(
    (Path(python_llm.__file__).parent / "engines" / "tensorrt" / "api.json").read_text("utf-8")
)


def fields_of(name: str) -> dict[str, Any]:
    """Field -> facts, of the class of this (last part of a) name and its bases, as far as this version has them."""
    full = next(each for each in API["classes"] if each.rpartition(".")[2] == name)
    facts = API["classes"][full]
    own = {field: row for field, row in facts["fields"].items() if IS_NEW or row.get("only") != "new"}
    if not IS_NEW:
        for old, new in facts.get("renamed", {}).items():
            own[old] = own.pop(new)
    inherited: dict[str, Any] = {}
    for base in facts.get("bases", ()):
        inherited |= fields_of(base)
    return {**inherited, **own}


class Fields:
    """As pydantic with ``extra="forbid"``: an unknown or missing field is a ValueError that names it."""

    model_fields: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **given: Any) -> None:
        kind = type(self).__name__
        for name in given:
            if name not in self.model_fields:
                raise ValueError(f"1 validation error for {kind}\n{name}\n  Extra inputs are not permitted")
        for name, row in self.model_fields.items():
            if name not in given and row.get("required"):
                raise ValueError(f"1 validation error for {kind}\n{name}\n  Field required")
            value = given.get(name, row.get("default"))
            _check_literal(kind, name, row["type"], value)
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _check_literal(kind: str, name: str, type_text: str, value: Any) -> None:
    if type_text.startswith("Literal[") and str(value) not in type_text[8:-1].split(","):
        raise ValueError(f"1 validation error for {kind}\n{name}\n  Input should be {type_text[8:-1]}, not {value!r}")


def make(name: str) -> Any:
    """The class of this name: pydantic-like, or a keyword-only dataclass where the library has one."""
    rows = fields_of(name)
    full = next(each for each in API["classes"] if each.rpartition(".")[2] == name)
    if API["classes"][full].get("style") != "dataclass":
        return type(name, (Fields,), {"model_fields": rows})
    members = [(field, Any, _default(row)) for field, row in rows.items()]
    return dataclasses.make_dataclass(name, members, kw_only=True)


def _default(row: Mapping[str, Any]) -> Any:
    if row.get("required"):
        return dataclasses.field()
    value = row["default"]
    if row.get("init") is False:
        return dataclasses.field(init=False, default=value)
    return dataclasses.field(default_factory=lambda: list(value)) if isinstance(value, list) else value
