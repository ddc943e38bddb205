"""OpenAI's messages as chat templates know them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["template_messages"]

_KEPT_AS_NULL = "content"  # of a message that calls tools
_ROLES = {"developer": "system"}  # a newer name of the same


def template_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Fields that are null are left out, but for content: templates ask whether they are there. The arguments of calls
    are objects, where OpenAI has JSON texts. What messages must look like is the server's affair.
    """
    return [_message(message) for message in messages]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in message.items() if value is not None or name == _KEPT_AS_NULL}
    role = told.get("role")
    if isinstance(role, str):
        told["role"] = _ROLES.get(role, role)
    if isinstance(told.get("tool_calls"), list):
        told["tool_calls"] = [_call(call) for call in told["tool_calls"]]
        if not told["tool_calls"]:
            del told["tool_calls"]
    return told


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    return {**call, "function": {**function, "arguments": _arguments(function["arguments"])}}


def _arguments(text: str) -> Any:
    """The text as it is where it is no JSON object: the template may take it."""
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return read if isinstance(read, dict) else text
