"""Calls that tool_choice forces: a guide makes the whole answer the call, whatever form the model was trained to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from openai_gateway.tool_calls.events import Arguments, Called, Event, Said
from openai_gateway.tool_calls.json_call import JsonCall

__all__ = ["AnyFunction", "OneFunction", "schema_of_any"]

Schema = Mapping[str, Any]


class OneFunction:
    """See Parser. The answer is the arguments of ``name``, by its own schema."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._called = False

    def push(self, text: str) -> list[Event]:
        events: list[Event] = [] if self._called else [Called(0, self._name)]
        self._called = True
        return [*events, Arguments(0, text)] if text else events

    def finish(self) -> list[Event]:
        return [] if self._called else [Called(0, self._name)]


class AnyFunction:
    """See Parser. The answer is one object with a name and arguments, by `schema_of_any`."""

    def __init__(self, names: Collection[str]) -> None:
        self._call = JsonCall(0, names)

    def push(self, text: str) -> list[Event]:
        events, rest = self._call.push(text)
        return [*events, Said(rest)] if rest.strip() else events

    def finish(self) -> list[Event]:
        return self._call.finish()


def schema_of_any(functions: Mapping[str, Schema]) -> Schema:
    """Name -> schema of its arguments, as the schema of one call of one of them."""
    return {"anyOf": [_call_of(name, schema) for name, schema in functions.items()]}


def _call_of(name: str, schema: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": schema},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
