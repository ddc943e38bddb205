"""The form of Llama 3.1 and later: an answer that is ``{"name": …, "parameters": …}``, several behind semicolons.

``<|python_tag|>`` before it is a special token, which the server leaves out of its text.
"""

from __future__ import annotations

from collections.abc import Collection

from openai_gateway.tool_calls.events import Event
from openai_gateway.tool_calls.json_call import JsonCall
from openai_gateway.tool_calls.plain_text import PlainText

__all__ = ["Llama3"]

_TAG = "<|python_tag|>"
_BETWEEN = " \t\r\n;,"


class Llama3:
    """See Parser. Calls stand at the answer's beginning or nowhere."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._calls = 0
        self._plain = PlainText()
        self._call: JsonCall | None = None
        self._is_text = False  # from here on
        self._held = ""

    def push(self, text: str) -> list[Event]:
        text, self._held = self._held + text, ""
        events: list[Event] = []
        while text:
            read = self._plain_text if self._is_text else self._read_call if self._call else self._read_between
            found, text = read(text)
            events += found
        return events

    def finish(self) -> list[Event]:
        events = self._plain.say(self._held) if self._call is None else self._call.finish()
        return [*events, *self._plain.finish(calls=self._calls)]

    def _read_between(self, text: str) -> tuple[list[Event], str]:
        """Before an answer's first call, or between two."""
        begin = text.lstrip(_BETWEEN if self._calls else None)
        if not begin or (len(begin) < len(_TAG) and _TAG.startswith(begin)):
            self._held = "" if self._calls and not begin else text
            return [], ""
        if begin.startswith(_TAG):
            return [], begin[len(_TAG) :]
        if begin.startswith("{"):
            self._call = JsonCall(self._calls, self._names)
            return [], begin
        self._is_text = True
        return [], begin if self._calls else text

    def _read_call(self, text: str) -> tuple[list[Event], str]:
        assert self._call is not None
        events, rest = self._call.push(text)
        if self._call.is_call and self._call.number == self._calls:
            self._calls += 1
        if self._call.done:
            self._is_text = not self._call.is_call
            self._call = None
        return events, rest

    def _plain_text(self, text: str) -> tuple[list[Event], str]:
        return self._plain.say(text), ""
