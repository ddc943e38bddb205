"""Bounds of input values: each is refused by name, with the rule it broke."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from python_llm.errors import InvalidRequest

__all__ = ["check_words", "real", "short_text", "whole"]


def real(
    values: Mapping[str, Any], name: str, low: float, high: float, *, default: float, above: bool = False
) -> float:
    """A finite number from ``low`` to ``high``; with ``above`` not ``low`` itself."""
    value = float(values.get(name, default))
    if not (math.isfinite(value) and low <= value <= high) or (above and value == low):
        bound = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
        raise InvalidRequest(f"{name}_out_of_range", f"{name} {value:g}: it must be {bound}.")
    return value


def whole(values: Mapping[str, Any], name: str, low: int, high: int, *, default: int) -> int:
    value = int(values.get(name, default))
    if not low <= value <= high:
        raise InvalidRequest(f"{name}_out_of_range", f"{name} {value}: it must be from {low} to {high}.")
    return value


def short_text(values: Mapping[str, Any], name: str, longest: int) -> str:
    text = str(values.get(name, ""))
    if len(text) > longest:
        raise InvalidRequest(f"{name}_too_long", f"{name}: {len(text)} characters; at most {longest}.")
    return text


def check_words(name: str, one: str, words: Sequence[str], most: int, longest: int) -> list[str]:
    """The words that are not empty; ``one`` is what the reason calls one of them."""
    found = [word for word in words if word]
    if len(found) > most:
        raise InvalidRequest(f"too_many_{name}", f"{name}: {len(found)} words; at most {most}.")
    size = max(map(len, found), default=0)
    if size > longest:
        raise InvalidRequest(f"{one}_too_long", f"{name}: a word of {size} characters; at most {longest}.")
    return found
