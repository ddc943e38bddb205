"""Sampling parameters as vLLM's clients write them: one JSON object, or request parameters of the same names.

``KEYS`` says what each key may hold and which inputs of ours it sets. Besides vLLM's own names, every input of one
value or a list that is no prompt may stand there under its own name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from python_llm.admission_json import read_json
from python_llm.errors import InvalidRequest
from python_llm.foreign_sampling import FOREIGN_KEYS, Values
from python_llm.json_values import READERS, check_text
from python_llm.request_tensors import CONTROL, PROMPT, REQUEST
from python_llm.tensors import Tensor

__all__ = ["KEYS", "add_parameters", "add_value", "parse_sampling_parameters"]

_SHOWN = 60
_NOT_HERE = {row.name for row in (*PROMPT, *CONTROL)} | {
    *("sampling_parameters", "stream", "accumulate_tokens"),
    *("return_logprobs", "return_cumulative_logprob"),  # an ensemble would not answer them
}


def _own(row: Tensor) -> Callable[[str, Any], Values]:
    read = READERS[row.dtype, row.is_scalar]
    return lambda key, value: {row.name: read(key, value)}


# key -> what it says: inputs of ours by name. Raises for a value of another type, or one that is not supported.
KEYS: Mapping[str, Callable[[str, Any], Values]] = {
    **{row.name: _own(row) for row in REQUEST if row.name not in _NOT_HERE},
    **{key: read for key, (read, _) in FOREIGN_KEYS.items()},
}


def parse_sampling_parameters(text: str) -> Mapping[str, Any]:
    """The JSON object of the input ``sampling_parameters``; an empty text is an empty object."""
    try:
        parsed = read_json(text) if text.strip() else {}
    except ValueError as error:
        raise InvalidRequest(
            "sampling_parameters_not_json", f"sampling_parameters: {error}; send a JSON object."
        ) from error
    if not isinstance(parsed, Mapping):
        raise InvalidRequest(
            "sampling_parameters_not_json", f"sampling_parameters: a {type(parsed).__name__}; send a JSON object."
        )
    return parsed


def add_parameters(values: dict[str, Any], parameters: Mapping[str, Any], subject: str) -> None:
    """Add what ``parameters`` say to ``values``; nulls, empty texts, lists and objects say nothing.

    Raises:
        InvalidRequest: an unknown key, a value of another type, or one that contradicts ``values``.
        Unsupported: a value that this model cannot honour.
    """
    for key, value in parameters.items():
        if key not in KEYS:
            raise _unknown(key, subject)
        if value is None or value in ("", [], {}):
            continue
        for name, said in _read(key, value, subject).items():
            add_value(values, name, said, f"{subject} '{key}'")


def _read(key: str, value: Any, subject: str) -> Values:
    try:
        check_text(f"{subject} '{key}'", value)
        return KEYS[key](key, value)
    except RecursionError as error:
        raise InvalidRequest(
            "wrong_type", f"{subject} '{key}': lists or objects inside each other too deep; send a plain value."
        ) from error


def add_value(values: dict[str, Any], name: str, value: Any, subject: str) -> None:
    """Set ``name``; the same value twice is fine."""
    if name in values and not _same(values[name], value):
        raise InvalidRequest(
            "given_twice",
            f"{subject}: {_shown(value)}, and {name} is {_shown(values[name])} elsewhere in the request; say it once.",
        )
    values.setdefault(name, value)


def _same(one: Any, other: Any) -> bool:
    """FP32 tensors and JSON round alike."""
    if isinstance(one, float) or isinstance(other, float):
        return bool(np.float32(one) == np.float32(other))
    return bool(one == other)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _unknown(key: str, subject: str) -> InvalidRequest:
    close = difflib.get_close_matches(key, KEYS, n=1)
    remedy = f"did you mean '{close[0]}'?" if close else "docs/tensors.md lists them."
    return InvalidRequest("unknown_sampling_parameter", f"{subject} '{key}': there is no such key; {remedy}")
