"""The forms of Mistral: ``[TOOL_CALLS][{"name": …, "arguments": …}, …]``, and ``[TOOL_CALLS]name[ARGS]{…}`` of newer
tokenizers.

The marker is a special token in most checkpoints, which the server leaves out of its text: a list that begins an
answer is read as calls without it too. The newer form needs its markers.
"""

from __future__ import annotations

from collections.abc import Collection

from openai_gateway.tool_calls.events import Arguments, Called, Event, Said
from openai_gateway.tool_calls.json_call import JsonCall
from openai_gateway.tool_calls.json_value import JsonValue
from openai_gateway.tool_calls.plain_text import PlainText, split_at

__all__ = ["Mistral"]

_MARKER, _ARGS = "[TOOL_CALLS]", "[ARGS]"


class Mistral:
    """See Parser."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._calls = 0
        self._plain = PlainText()
        self._call: JsonCall | None = None
        self._value: JsonValue | None = None  # arguments of the newer form
        self._read = self._read_start
        self._held = ""
        self._before = ""  # what led to a call, in case it is none

    def push(self, text: str) -> list[Event]:
        text, self._held = self._held + text, ""
        events: list[Event] = []
        while text:
            found, text = self._read(text)
            events += found
        return events

    def finish(self) -> list[Event]:
        events: list[Event] = []
        if self._call is not None:
            events = self._call.finish()
        elif self._value is None:
            events = self._plain.say(self._before + self._held)
        return [*events, *self._plain.finish(calls=self._calls)]

    def _read_start(self, text: str) -> tuple[list[Event], str]:
        begin = text.lstrip()
        if not begin or begin in ("[",) or _MARKER.startswith(begin) or not begin[1:].lstrip():
            self._held = text
            return [], ""
        listed = begin.startswith("[") and begin[1:].lstrip().startswith("{")
        self._read = self._read_between if listed else self._read_text
        return [], begin if listed else text

    def _read_text(self, text: str) -> tuple[list[Event], str]:
        before, found, rest = split_at(text, _MARKER)
        events = self._plain.say(before)
        if found:
            self._read, self._before = self._read_marked, _MARKER
        else:
            self._held = rest
        return events, rest if found else ""

    def _read_marked(self, text: str) -> tuple[list[Event], str]:
        """Behind the marker: a list, or a name."""
        begin = text.lstrip()
        if begin.startswith("["):
            self._read = self._read_between
            return [], begin
        name, brace, arguments = begin.partition("{")
        if not brace:
            self._held = text
            return [], ""
        name = name.strip().removesuffix(_ARGS).strip()
        if name not in self._names:
            self._read, self._before = self._read_text, ""
            return self._plain.say(_MARKER + text[: text.index("{")]), brace + arguments
        self._plain.drop_spaces()
        self._before = ""
        self._value, self._read = JsonValue(), self._read_arguments
        self._calls += 1
        return [Called(self._calls - 1, name)], brace + arguments

    def _read_arguments(self, text: str) -> tuple[list[Event], str]:
        assert self._value is not None
        for at, char in enumerate(text):
            self._value.take(char)
            if self._value.ended:
                self._value, self._read = None, self._read_text
                return [Arguments(self._calls - 1, text[: at + 1])], text[at + 1 :]
        return [Arguments(self._calls - 1, text)], ""

    def _read_between(self, text: str) -> tuple[list[Event], str]:
        """Before a call of the list, or behind the last."""
        begin = text.lstrip("[, \t\r\n")
        if not begin:
            self._held = text if not self._calls else ""
            return [], ""
        if begin.startswith("{"):
            self._call, self._read = JsonCall(self._calls, self._names), self._read_call
            self._before += text[: len(text) - len(begin)]
            return [], begin
        self._read, self._before = self._read_text, ""
        return [], begin.removeprefix("]")

    def _read_call(self, text: str) -> tuple[list[Event], str]:
        assert self._call is not None
        events, rest = self._call.push(text)
        if self._call.is_call and self._call.number == self._calls:
            self._calls += 1
            self._plain.drop_spaces()
        if self._call.done:
            self._read = self._read_between if self._call.is_call else self._read_text
            self._call = None
        return self._as_text(events), rest

    def _as_text(self, events: list[Event]) -> list[Event]:
        """What was no call begins with its bracket."""
        if not events:
            return events
        before, self._before = self._before, ""
        first = events[0]
        return self._plain.say(before + first.text) if isinstance(first, Said) else events
