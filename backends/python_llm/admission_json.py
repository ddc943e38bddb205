"""JSON texts of a request, refused in words that are neither Python's nor a library's."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["NESTED_TOO_DEEPLY", "read_json"]

NESTED_TOO_DEEPLY = "nested too deeply"


def read_json(text: str) -> Any:
    """The value; ValueError says in a caller's words why there is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise ValueError(NESTED_TOO_DEEPLY) from error
    except ValueError as error:  # Python bounds the digits of a whole number
        raise ValueError("a number is too long") from error
