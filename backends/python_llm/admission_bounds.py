"""A bound that is another input's value: the refusal names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from python_llm.errors import InvalidRequest

__all__ = ["whole_up_to"]


def whole_up_to(values: Mapping[str, Any], name: str, low: int, other: str, most: int, *, default: int) -> int:
    """A whole number from ``low`` to ``most``, the value of the input ``other``."""
    value = int(values.get(name, default))
    if not low <= value <= most:
        bound = f"from {low} to {other}, which is {most}"
        raise InvalidRequest(f"{name}_out_of_range", f"{name} {value}: it must be {bound}.")
    return value
