"""Requests whose prompts begin alike have the same prefix, so that they come to the server that has its beginning."""

from __future__ import annotations

from openai_gateway.questions import prefix_of
from openai_gateway.schemas.chat import ChatRequest


def test_a_conversation_keeps_its_prefix_as_it_goes_on() -> None:
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "one"}]
    later = [*first, {"role": "assistant", "content": "1"}, {"role": "user", "content": "two"}]
    body = ChatRequest.model_validate({"model": "m", "messages": first})
    assert prefix_of(first, body) == prefix_of(later, body)
    assert prefix_of({"messages": first, "tools": []}, body) == prefix_of({"messages": later, "tools": []}, body)
    other = [{"role": "system", "content": "s"}, {"role": "user", "content": "two"}]
    assert prefix_of(first, body) != prefix_of(other, body)
