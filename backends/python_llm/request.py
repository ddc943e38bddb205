"""From a Triton request's tensors to plain Python values, by the contract's rows."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy.typing as npt

from python_llm.contract import STANDARD_PARAMETERS, RoleContract, Tensor
from python_llm.errors import InvalidRequest, Unsupported
from python_llm.sampling_parameters import KEYS, add_parameters, add_value, parse_sampling_parameters

__all__ = ["InputTensor", "read_parameters", "read_request", "read_values"]

_SHOWN = 40  # characters of a value that an error repeats


class InputTensor(Protocol):
    """What pb_utils.Tensor offers."""

    def name(self) -> str: ...

    def as_numpy(self) -> npt.NDArray[Any]: ...


def read_request(tensors: Iterable[InputTensor], parameters: str, contract: RoleContract) -> dict[str, Any]:
    """All that the request says, by the names of our own rows: tensors, sampling_parameters, request parameters.

    Raises:
        InvalidRequest: as `read_values`; two places say different things, or a name is unknown.
        Unsupported: an input that this model cannot honour is set.
    """
    values = read_values(tensors, contract)
    text = values.pop("sampling_parameters", "")
    add_parameters(values, parse_sampling_parameters(text), "sampling_parameters")
    said = read_parameters(parameters, contract)
    add_parameters(values, {k: v for k, v in said.items() if k not in STANDARD_PARAMETERS}, "parameter")
    return values


def read_values(tensors: Iterable[InputTensor], contract: RoleContract) -> dict[str, Any]:
    """Return name -> value: a scalar for dims (1,), a list else; BYTES become text, aliases our own names.

    Shapes: [1, n] where the role has a batch dimension, else [n].

    Raises:
        InvalidRequest: an unknown name, an empty scalar, an alias that contradicts, or bytes that are no UTF-8.
        Unsupported: a refused input is set to something.
    """
    values: dict[str, Any] = {}
    for tensor in tensors:
        row = contract.input(tensor.name())
        if row is None:
            raise InvalidRequest("unknown_input", f"input '{tensor.name()}': this model has no such input.")
        flat = tensor.as_numpy().reshape(-1)
        if row.refused:
            _refuse_if_set(row, flat)
        else:
            add_value(values, row.alias_of or row.name, _value(row, flat), row.name)
    return values


def _refuse_if_set(row: Tensor, flat: npt.NDArray[Any]) -> None:
    """Empty arrays, 0, false and empty texts ask for nothing."""
    given = [item for item in flat if len(item)] if row.dtype == "BYTES" else flat[(flat != 0) & (flat != row.neutral)]
    if len(given):
        text = _text(row, given[0]) if row.dtype == "BYTES" else str(given[0].item())
        more = "…" if len(given) > 1 or len(text) > _SHOWN else ""
        raise Unsupported("not_supported", f"{row.name}: {text[:_SHOWN]}{more}; {row.refused}.")


def _value(row: Tensor, flat: npt.NDArray[Any]) -> Any:
    items = [_text(row, item) for item in flat] if row.dtype == "BYTES" else flat.tolist()
    if not row.is_scalar:
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
    """Check a request's parameters (JSON): what standard clients attach by themselves, and sampling parameters.

    HTTP generate turns every undeclared JSON key into a parameter, so a misspelt input arrives here.
    """
    parameters: Mapping[str, Any] = json.loads(text) if text else {}
    for name in parameters:
        if name not in STANDARD_PARAMETERS and name not in KEYS:
            close = difflib.get_close_matches(name, [*(row.name for row in contract.inputs), *KEYS], n=1)
            remedy = f"did you mean '{close[0]}'?" if close else "docs/tensors.md lists them."
            raise InvalidRequest("unknown_parameter", f"parameter '{name}': this model has no such input; {remedy}")
    return parameters
