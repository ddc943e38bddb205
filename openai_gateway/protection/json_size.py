"""How many values a JSON text has, counted before it is parsed.

A parser in C holds the interpreter for as long as it runs, in whatever thread. Long texts cost it little, many small
values much: half a second for the million that fit into a body, in which no other stream would move.
"""

from __future__ import annotations

from python_llm.errors import InvalidRequest

__all__ = ["check_json_size"]

_MOST_CONTAINERS = 2**13  # objects and arrays: a message is one, and each of its parts
_MOST_VALUES = 2**18  # token ids, and all else


def check_json_size(raw: bytes) -> None:
    """Raises InvalidRequest where parsing would take too long. What is no JSON is left to the parser."""
    plain = raw.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in raw else raw
    if plain.count(b'"') > 4 * _MOST_VALUES:  # a name and its value
        raise _refused("values", _MOST_VALUES)
    outside = b"".join(plain.split(b'"')[::2])  # of strings
    if outside.count(b"{") + outside.count(b"[") > _MOST_CONTAINERS:
        raise _refused("objects and arrays", _MOST_CONTAINERS)
    if outside.count(b",") >= _MOST_VALUES:
        raise _refused("values", _MOST_VALUES)


def _refused(what: str, limit: int) -> InvalidRequest:
    return InvalidRequest("body_too_large", f"body: more than {limit} JSON {what}; send it in several requests.")
