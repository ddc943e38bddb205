"""JSON values of parameters: numbers that stand as text are numbers, whole floats are whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from python_llm.errors import InvalidRequest
from python_llm.tensors import Dtype

__all__ = ["READERS", "check_text", "wrong_type"]

_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def wrong_type(key: str, value: Any, rule: str) -> InvalidRequest:
    return InvalidRequest("wrong_type", f"{key}: {repr(value)[:60]}; it must be {rule}.")


def check_text(subject: str, value: Any) -> None:
    """Raise for half a surrogate pair anywhere in ``value``: JSON can say what UTF-8 cannot."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "invalid_utf8",
                f"{subject}: {value[error.start]!a} is half a surrogate pair; send whole characters.",
            ) from error
    elif isinstance(value, list):
        for item in value:
            check_text(subject, item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            check_text(subject, name)
            check_text(subject, item)


def _number(key: str, value: Any) -> int | float:
    if isinstance(value, str):
        try:
            return int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        except ValueError:
            pass
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise wrong_type(key, value, "a number")


def _real(key: str, value: Any) -> float:
    try:
        return float(_number(key, value))
    except OverflowError:
        return math.inf


def _whole(key: str, value: Any) -> int:
    number = _number(key, value)
    if isinstance(number, float) and not number.is_integer():  # infinity and NaN are none
        raise wrong_type(key, value, "a whole number")
    return int(number)


def _flag(key: str, value: Any) -> bool:
    found = _FLAGS.get(str(value).lower())
    if found is None:
        raise wrong_type(key, value, "true or false")
    return found


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(key, value, "text")
    return value


def _texts(key: str, value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [_text(key, item) for item in items if item is not None]


def _wholes(key: str, value: Any) -> list[int]:
    items = value if isinstance(value, list) else [value]
    return [_whole(key, item) for item in items if item is not None]


# (dtype, one value?) -> reader of (key, value).
READERS: Mapping[tuple[Dtype, bool], Callable[[str, Any], Any]] = {
    ("BYTES", True): _text,
    ("BYTES", False): _texts,
    ("BOOL", True): _flag,
    ("INT32", True): _whole,
    ("INT32", False): _wholes,
    ("UINT64", True): _whole,
    ("FP32", True): _real,
}
