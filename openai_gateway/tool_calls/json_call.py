"""One call as a JSON object with its name and its arguments, read as it comes."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Literal

from openai_gateway.tool_calls.events import Arguments, Called, Event, Said
from openai_gateway.tool_calls.json_value import JsonValue

__all__ = ["JsonCall"]

_ARGUMENTS = frozenset({"arguments", "parameters"})
_State = Literal["start", "key", "colon", "value", "after", "done", "no call"]


class JsonCall:
    """``{"name": …, "arguments": …}``, ``parameters`` for the latter; other keys are passed over.

    The arguments are told as they come once the name is known, in the model's own spelling. Arguments that the model
    wrote as a text that holds JSON are told as that JSON. An object that is no call of one of ``names`` is text.
    """

    def __init__(self, number: int, names: Collection[str]) -> None:
        self.number = number
        self._names = names
        self._state: _State = "start"
        self._raw = ""  # everything, in case it is no call
        self._key = self._text = ""
        self._value = JsonValue()
        self._called = False
        self._waiting: str | None = None  # arguments that came before the name
        self._told = False  # some arguments

    @property
    def done(self) -> bool:
        return self._state in ("done", "no call")

    @property
    def is_call(self) -> bool:
        """Whether its name was told."""
        return self._called

    def push(self, text: str) -> tuple[list[Event], str]:
        """The events, and what stands behind the object's end; after it nothing is taken."""
        events: list[Event] = []
        pieces: list[str] = []  # of arguments, told together
        for at, char in enumerate(text):
            if self.done:
                return [*events, *self._joined(pieces)], text[at:]
            self._raw += char
            events += self._step(char, pieces)
        return [*events, *self._joined(pieces)], ""

    def finish(self) -> list[Event]:
        """The answer ended inside the object: what told no name yet is text."""
        if self.done or self._called:
            return []
        return self._no_call()

    def _step(self, char: str, pieces: list[str]) -> list[Event]:
        if self._state == "value":
            return self._step_in_value(char, pieces)
        if char.isspace():
            return []
        if self._state == "start" and char == "{":
            self._state = "key"
        elif self._state == "key" and char == '"':
            self._begin_value()
            return self._step_in_value(char, pieces)
        elif self._state == "colon" and char == ":":
            self._begin_value()
        elif self._state == "after" and char == ",":
            self._state = "key"
        elif self._state in ("after", "key") and char == "}":
            return self._close()
        else:
            return self._no_call()
        return []

    def _begin_value(self) -> None:
        """Of a key too: while there is no key, the value is one."""
        self._state, self._text, self._value = "value", "", JsonValue()

    def _step_in_value(self, char: str, pieces: list[str]) -> list[Event]:
        if not self._text and char.isspace():
            return []
        taken = self._value.take(char)
        if taken:
            self._text += char
            if self._streams():
                pieces.append(char)
        if not self._value.ended:
            return []
        events = self._end_of_value(pieces)
        return events if taken else [*events, *self._step(char, pieces)]

    def _streams(self) -> bool:
        return self._called and self._key in _ARGUMENTS and self._text[0] == "{"

    def _end_of_value(self, pieces: list[str]) -> list[Event]:
        if not self._key:
            self._key, self._state = _text_of(self._text), "colon"
            return [] if self._key else self._no_call()
        key, value = self._key, self._text
        self._key, self._state = "", "after"
        if key == "name":
            return self._name(_text_of(value))
        if key in _ARGUMENTS:
            return self._arguments(value)
        return []

    def _name(self, name: str) -> list[Event]:
        if self._called or name not in self._names:
            return self._no_call()
        self._called = True
        events: list[Event] = [Called(self.number, name)]
        if self._waiting is not None:
            events += self._tell(self._waiting)
        return events

    def _arguments(self, value: str) -> list[Event]:
        if not self._called:
            self._waiting = value
            return []
        if value.startswith("{"):  # told as it came
            self._told = True
            return []
        return self._tell(value)

    def _tell(self, value: str) -> list[Event]:
        self._told = True
        if value.startswith('"'):
            value = _text_of(value)
        return [Arguments(self.number, "{}" if value in ("null", "") else value)]

    def _close(self) -> list[Event]:
        if not self._called:
            return self._no_call()
        self._state = "done"
        return [] if self._told else [Arguments(self.number, "{}")]

    def _no_call(self) -> list[Event]:
        self._state = "no call"
        return [] if self._called else [Said(self._raw)]

    def _joined(self, pieces: list[str]) -> list[Event]:
        return [Arguments(self.number, "".join(pieces))] if pieces else []


def _text_of(value: str) -> str:
    """The text of a JSON string; empty where it is none."""
    try:
        text = json.loads(value)
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""
