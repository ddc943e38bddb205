"""Tokens beside the generated ones, and what they might have been."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Alternative", "TopLogProbs", "read_alternatives", "read_token_texts"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that was likely. ``text`` has U+FFFD where its bytes are no whole characters; ``raw`` has the bytes."""

    id: int
    text: str
    log_prob: float
    raw: bytes


# The likeliest tokens at one position, likeliest first.
TopLogProbs = tuple[Alternative, ...]


def read_alternatives(text: str) -> tuple[TopLogProbs, ...]:
    """Of the outputs ``output_top_log_probs`` and ``prompt_top_log_probs``: a list for each token."""
    return tuple(tuple(map(_alternative, entries)) for entries in json.loads(text or "[]"))


def read_token_texts(text: str) -> tuple[str, ...]:
    """Of the output ``logprobs``, which is vLLM's: of each token an object that begins with the token itself."""
    return tuple(next(iter(entry.values()))["decoded_token"] for entry in json.loads(text or "[]"))


def _alternative(entry: dict[str, Any]) -> Alternative:
    text = entry["text"]
    raw = bytes(entry["bytes"]) if "bytes" in entry else text.encode()
    return Alternative(entry["id"], text, entry["log_prob"], raw)
