"""The prompt in its three forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from python_llm.errors import InvalidRequest
from triton_llm_client.params import Tensors

__all__ = ["Messages", "Prompt", "prompt_tensors"]

Messages = Sequence[Mapping[str, Any]] | Mapping[str, Any]
Prompt = str | Sequence[int] | Messages


def prompt_tensors(prompt: Prompt) -> Tensors:
    """The one input a prompt becomes: text, token ids, or chat messages as JSON.

    Raises:
        InvalidRequest: the prompt is empty, or messages cannot be written as JSON.
    """
    if isinstance(prompt, str):
        return {"text_input": (prompt,)}
    if isinstance(prompt, Mapping):
        return {"messages": (_json(prompt),)}
    if isinstance(prompt, (bytes, bytearray)) or not isinstance(prompt, Sequence):
        raise InvalidRequest(
            "invalid_prompt", f"prompt of type {type(prompt).__name__}: it must be text, token ids or messages."
        )
    if not len(prompt):
        raise InvalidRequest("empty_prompt", "prompt []: it must hold at least one token id or message; send one.")
    if isinstance(prompt[0], Mapping):
        return {"messages": (_json(list(prompt)),)}
    return {"input_ids": prompt}  # type: ignore[dict-item]


def _json(messages: object) -> str:
    try:
        return json.dumps(messages, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequest("invalid_messages", f"messages: {error}; they must be plain JSON values.") from error
