"""JSON fields of a batch line to GenerateParams; what cannot be honoured is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from python_llm.errors import InvalidRequest
from triton_llm_client.params import JSON_FIELDS, GenerateParams
from triton_llm_client.prompts import Prompt

__all__ = ["params_of_fields", "prompt_of_fields", "text_field"]

_OWN = frozenset(field.name for field in fields(GenerateParams)) - {"more"}


def params_of_fields(record: Mapping[str, Any]) -> GenerateParams:
    """Every field of ``record`` is a parameter by its contract name; null means absent.

    Raises:
        InvalidRequest: an unknown name, or a value that is no scalar and no list of scalars.
    """
    given = {name: _value(name, value) for name, value in record.items() if value is not None}
    own = {name: value for name, value in given.items() if name in _OWN}
    return GenerateParams(**own, more={name: value for name, value in given.items() if name not in _OWN})


def prompt_of_fields(record: Mapping[str, Any]) -> Prompt:
    """The prompt in ``prompt`` (text or token ids) or ``messages`` (a list, or an object with messages and tools).

    Raises:
        InvalidRequest: none or both of them, or of another form.
    """
    given = [name for name in ("prompt", "messages") if record.get(name) is not None]
    if len(given) != 1:
        raise InvalidRequest("one_prompt", f"line: it has {len(given)} prompts; give exactly one: prompt or messages.")
    value = record[given[0]]
    if given == ["prompt"]:
        if not isinstance(value, str) and not _is_list_of(value, int):
            raise InvalidRequest("wrong_type", f"prompt: {_kind(value)}; it must be text or a list of token ids.")
    elif not isinstance(value, dict) and not _is_list_of(value, dict):
        raise InvalidRequest("wrong_type", f"messages: {_kind(value)}; it must be a list of messages.")
    prompt: Prompt = value
    return prompt


def text_field(record: Mapping[str, Any], name: str) -> str | None:
    """The text in ``name``; None where it is absent or null.

    Raises:
        InvalidRequest: it is no text.
    """
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest("wrong_type", f"{name}: {_kind(value)}; it must be text.")
    return value


def _value(name: str, value: Any) -> Any:
    if name in JSON_FIELDS and isinstance(value, dict):
        return value
    if isinstance(value, (str, bool, int, float)) or _is_list_of(value, (str, bool, int, float)):
        return value
    raise InvalidRequest("wrong_type", f"{name}: {_kind(value)}; it must be a value or a list of values.")


def _is_list_of(value: Any, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(item, kinds) for item in value)


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {dict: "an object", list: "a list of other things", str: "text"}
    return kinds.get(type(value), repr(value))
