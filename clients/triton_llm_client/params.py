"""What a request may say, and the prompt in its three forms."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from python_llm.contract import GENERATOR
from python_llm.errors import InvalidRequest

__all__ = ["GenerateParams", "Messages", "Prompt", "Scalar", "Tensors", "prompt_tensors"]

Scalar = str | int | float | bool
# Tensor name -> its flat values; shapes and dtypes come from the contract.
Tensors = dict[str, Sequence[Scalar]]

Messages = Sequence[Mapping[str, Any]] | Mapping[str, Any]
Prompt = str | Sequence[int] | Messages

# Rows a caller does not set through GenerateParams: the prompt forms and what the client itself sends.
_RESERVED = frozenset({"text_input", "input_ids", "messages", "stream", "stop", "control"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateParams:
    """Parameters of one request; None means absent, so that the server's default holds.

    Each field is the contract's tensor of the same name (`python_llm.contract` has the meanings; the server
    checks the bounds). ``timeout`` is in microseconds. ``more`` takes any other input of the contract by name.

    Raises:
        InvalidRequest: a name in ``more`` is no input of the generator, or is one the client sets itself.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    stop_words: Sequence[str] = ()
    ignore_eos: bool | None = None
    priority: int | None = None
    timeout: int | None = None
    resume_ids: Sequence[int] = ()
    more: Mapping[str, Scalar | Sequence[Scalar]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.more:
            _check_name(name)
            if getattr(self, name, None) not in (None, ()):
                raise InvalidRequest("given_twice", f"parameter '{name}': it stands in 'more' too; give it once.")

    def tensors(self) -> Tensors:
        """The parameters that are set, by tensor name; empty lists count as unset."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more"}
        return {name: flat for name, value in {**named, **self.more}.items() if (flat := _flat(value))}


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


def _flat(value: Scalar | Sequence[Scalar] | None) -> Sequence[Scalar]:
    if value is None:
        return ()
    if isinstance(value, (str, bool, int, float)):
        return (value,)
    return value


def _check_name(name: str) -> None:
    known = [row.name for row in GENERATOR.inputs if row.name not in _RESERVED]
    if name in known:
        return
    if name in _RESERVED:
        raise InvalidRequest("reserved_parameter", f"parameter '{name}': the client sets it; leave it out of 'more'.")
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean '{close[0]}'?" if close else f"known names: {', '.join(known)}."
    raise InvalidRequest("unknown_parameter", f"parameter '{name}': no input of the generator has this name; {remedy}")
