"""Tokens beside the generated ones, and what they might have been."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Alternative", "TokenText", "TopLogProbs", "read_alternatives", "read_prompt_tokens", "read_tokens"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that was likely. ``text`` has U+FFFD where its bytes are no whole characters; ``raw`` has the bytes."""

    id: int
    text: str
    log_prob: float
    raw: bytes


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token: its text, with U+FFFD where its bytes are no whole characters, and its bytes; special ones have none."""

    id: int
    text: str
    raw: bytes


# The likeliest tokens at one position, likeliest first.
TopLogProbs = tuple[Alternative, ...]


def read_alternatives(text: str) -> tuple[TopLogProbs, ...]:
    """Of the outputs ``output_top_log_probs`` and ``prompt_top_log_probs``: a list for each token."""
    return tuple(tuple(map(_alternative, entries)) for entries in json.loads(text or "[]"))


def read_tokens(text: str) -> tuple[TokenText, ...]:
    """Of the output ``logprobs``, which is vLLM's: of each token an object that begins with the token itself."""
    generated = (next(iter(entry.items())) for entry in json.loads(text or "[]"))
    return tuple(_token(int(token_id), said, "decoded_token") for token_id, said in generated)


def read_prompt_tokens(text: str) -> tuple[TokenText, ...]:
    """Of the output ``prompt_tokens``."""
    return tuple(_token(entry["id"], entry, "text") for entry in json.loads(text or "[]"))


def _token(token_id: int, entry: dict[str, Any], name: str) -> TokenText:
    return TokenText(token_id, entry[name], _raw(entry, entry[name]))


def _alternative(entry: dict[str, Any]) -> Alternative:
    text = entry["text"]
    return Alternative(entry["id"], text, entry["log_prob"], _raw(entry, text))


def _raw(entry: dict[str, Any], text: str) -> bytes:
    """The bytes stand there where the text does not tell them."""
    return bytes(entry["bytes"]) if "bytes" in entry else bytes(text.encode())
