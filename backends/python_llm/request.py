"""From a Triton request's tensors to plain Python values, by the contract's rows."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy.typing as npt

from python_llm.contract import STANDARD_PARAMETERS, RoleContract, Tensor
from python_llm.errors import InvalidRequest

__all__ = ["InputTensor", "read_parameters", "read_values"]


class InputTensor(Protocol):
    """What pb_utils.Tensor offers."""

    def name(self) -> str: ...

    def as_numpy(self) -> npt.NDArray[Any]: ...


def read_values(tensors: Iterable[InputTensor], contract: RoleContract) -> dict[str, Any]:
    """Return name -> value: a scalar for dims (1,), a list else; BYTES become text.

    Shapes: [1, n] where the role has a batch dimension, else [n].

    Raises:
        InvalidRequest: an unknown name, an empty scalar, or bytes that are no UTF-8.
    """
    values: dict[str, Any] = {}
    for tensor in tensors:
        row = contract.input(tensor.name())
        if row is None:
            raise InvalidRequest("unknown_input", f"input '{tensor.name()}': this model has no such input.")
        values[row.name] = _value(row, tensor.as_numpy().reshape(-1))
    return values


def _value(row: Tensor, flat: npt.NDArray[Any]) -> Any:
    items = [_text(row, item) for item in flat] if row.dtype == "BYTES" else flat.tolist()
    if row.dims != (1,):
        return items
    if len(items) != 1:
        raise InvalidRequest("wrong_shape", f"{row.name}: {len(items)} values; it takes exactly one: send shape [1,1].")
    return items[0]


def _text(row: Tensor, item: bytes | str) -> str:
    if isinstance(item, str):
        return item
    try:
        return item.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            "invalid_utf8", f"{row.name}: byte {error.start} of the text is no UTF-8; send UTF-8 text."
        ) from error


def read_parameters(text: str, contract: RoleContract) -> Mapping[str, Any]:
    """Check a request's parameters (JSON): only what standard clients attach by themselves is let through.

    HTTP generate turns every undeclared JSON key into a parameter, so a misspelt input arrives here.
    """
    parameters: Mapping[str, Any] = json.loads(text) if text else {}
    for name in parameters:
        if name not in STANDARD_PARAMETERS:
            close = difflib.get_close_matches(name, [row.name for row in contract.inputs], n=1)
            remedy = f"did you mean '{close[0]}'?" if close else "docs/tensors.md lists them."
            raise InvalidRequest("unknown_parameter", f"parameter '{name}': this model has no such input; {remedy}")
    return parameters
