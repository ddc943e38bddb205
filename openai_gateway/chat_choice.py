"""One choice of a chat completion: from chunks to deltas, calls of tools among them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from openai_gateway.finish import finish_of
from openai_gateway.tool_calls.events import Arguments, Called, Event, Parser, Said
from triton_llm_client import Choice, Chunk
from triton_llm_client.openai_log_probs import chat_log_probs

__all__ = ["ChatChoice"]


class ChatChoice:
    """``one_call``: calls behind the first are not told. Deltas are what a stream says; ``message`` is their sum."""

    def __init__(
        self, index: int, parser: Parser | None, *, one_call: bool = False, stops_at_call: bool = False
    ) -> None:
        self.index = index
        self.ended = False
        self._parser = parser
        self._one_call = one_call
        self._stops_at_call = stops_at_call
        self._texts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._log_probs: list[Any] = []
        self._finish: str | None = None

    def opening(self) -> dict[str, Any]:
        """What a stream says of it first."""
        return self._told({"role": "assistant", "content": "", "refusal": None}, None)

    def take(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Choices of a stream's parts. The log-probs of a chunk stand in its first part."""
        deltas = [delta for event in self._events(chunk) for delta in self._delta(event)]
        log_probs = chat_log_probs(Choice.of(self.index, [chunk]))
        if log_probs is not None:
            self._log_probs += log_probs["content"]
        told = [self._told(delta, None) for delta in deltas or ([{}] if log_probs else [])]
        if log_probs is not None:
            told[0]["logprobs"] = log_probs
        if chunk.finish_reason is not None:
            self.ended = True
            self._finish = self._finish_of(chunk.finish_reason)
            told.append(self._told({}, self._finish))
        return told

    def whole(self) -> dict[str, Any]:
        """The choice of an answer that does not stream."""
        text = "".join(self._texts)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if self._calls:
            message["content"] = text or None
            message["tool_calls"] = self._calls
        log_probs = {"content": self._log_probs, "refusal": None} if self._log_probs else None
        return {"index": self.index, "message": message, "logprobs": log_probs, "finish_reason": self._finish}

    def _events(self, chunk: Chunk) -> Iterable[Event]:
        if self._parser is None:
            return [Said(chunk.text)] if chunk.text else []
        events: Sequence[Event] = self._parser.push(chunk.text)
        return [*events, *self._parser.finish()] if chunk.finish_reason is not None else events

    def _delta(self, event: Event) -> list[dict[str, Any]]:
        if isinstance(event, Said):
            self._texts.append(event.text)
            return [{"content": event.text}]
        if self._one_call and event.number:
            return []
        if isinstance(event, Called):
            return [self._begin_call(event)]
        return [self._more_of_call(event)]

    def _begin_call(self, event: Called) -> dict[str, Any]:
        function = {"name": event.name, "arguments": ""}
        call = {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function"}
        self._calls.append({**call, "function": function})
        return {"tool_calls": [{"index": event.number, **call, "function": dict(function)}]}

    def _more_of_call(self, event: Arguments) -> dict[str, Any]:
        self._calls[event.number]["function"]["arguments"] += event.text
        return {"tool_calls": [{"index": event.number, "function": {"arguments": event.text}}]}

    def _finish_of(self, reason: str) -> str | None:
        finish = finish_of(reason)
        return "tool_calls" if self._calls and finish == "stop" and not self._stops_at_call else finish

    def _told(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        return {"index": self.index, "delta": delta, "logprobs": None, "finish_reason": finish}
