"""The form of Hermes and Qwen 2.5 and 3: ``<tool_call>{"name": …, "arguments": …}</tool_call>``, several in a row."""

from __future__ import annotations

from collections.abc import Collection

from openai_gateway.tool_calls.events import Event, Said
from openai_gateway.tool_calls.json_call import JsonCall
from openai_gateway.tool_calls.plain_text import PlainText, split_at

__all__ = ["Hermes"]

_BEGIN, _END = "<tool_call>", "</tool_call>"


class Hermes:
    """See Parser."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._calls = 0
        self._plain = PlainText()
        self._call: JsonCall | None = None
        self._in_tail = False  # between a call and its end marker
        self._held = ""

    def push(self, text: str) -> list[Event]:
        text, self._held = self._held + text, ""
        events: list[Event] = []
        while text:
            read = self._read_tail if self._in_tail else self._read_call if self._call else self._read_text
            found, text = read(text)
            events += found
        return events

    def finish(self) -> list[Event]:
        events: list[Event] = []
        if self._call is not None and not self._in_tail:
            events = self._as_text(self._call.finish())
        elif not self._in_tail:
            events = self._plain.say(self._held)
        return [*events, *self._plain.finish(calls=self._calls)]

    def _read_text(self, text: str) -> tuple[list[Event], str]:
        before, found, rest = split_at(text, _BEGIN)
        events = self._plain.say(before)
        if not found:
            self._held = rest
            return events, ""
        self._call = JsonCall(self._calls, self._names)
        return events, rest

    def _read_call(self, text: str) -> tuple[list[Event], str]:
        assert self._call is not None
        events, rest = self._call.push(text)
        if self._call.is_call and self._call.number == self._calls:
            self._calls += 1
            self._plain.drop_spaces()
        if not self._call.done:
            return events, rest
        if self._call.is_call:
            self._in_tail = True
            return events, rest
        self._call = None
        return self._as_text(events), rest

    def _read_tail(self, text: str) -> tuple[list[Event], str]:
        _, found, rest = split_at(text, _END)
        if not found:
            self._held = rest
            return [], ""
        self._call, self._in_tail = None, False
        return [], rest

    def _as_text(self, events: list[Event]) -> list[Event]:
        """Of what was no call, the marker is text too."""
        text = "".join(event.text for event in events if isinstance(event, Said))
        return self._plain.say(_BEGIN + text) if events else []
