"""Values to and from Triton's two wire forms, driven by the contract's rows.

gRPC carries raw little-endian bytes; HTTP's generate route carries JSON. Tensors here hold a few values, so they
are packed with ``struct``: building numpy arrays costs more than the tensors themselves.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from python_llm.contract import Dtype, RoleContract, Tensor
from python_llm.errors import InvalidRequest
from triton_llm_client.params import Scalar, Tensors

__all__ = ["checked_inputs", "json_fields", "pack", "shape_of", "unpack"]

_FORMATS: Mapping[Dtype, str] = {
    "BOOL": "?",
    "UINT8": "B",
    "INT32": "i",
    "INT64": "q",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
}
_BOUNDS: Mapping[Dtype, tuple[int, int]] = {
    "UINT8": (0, 2**8 - 1),
    "INT32": (-(2**31), 2**31 - 1),
    "INT64": (-(2**63), 2**63 - 1),
    "UINT64": (0, 2**64 - 1),
}
_LARGEST: Mapping[Dtype, float] = {"FP16": 65504.0, "FP32": 3.4028234e38}


def checked_inputs(contract: RoleContract, tensors: Tensors) -> list[tuple[Tensor, Sequence[Scalar]]]:
    """Pair each tensor with its row and check type, range and count before anything is sent.

    The checks stand here because Triton's HTTP route wraps integers that are too large without a word.

    Raises:
        InvalidRequest: no such input, a value of another type, out of its dtype's range, or not one value.
    """
    return [(row, _checked(row, values)) for row, values in ((_row(contract, n), v) for n, v in tensors.items())]


def shape_of(contract: RoleContract, count: int) -> list[int]:
    """``[1, n]`` where the model has a batch dimension, ``[n]`` where it has none."""
    return [1, count] if contract.max_batch_size else [count]


def pack(dtype: Dtype, values: Sequence[Scalar]) -> bytes:
    """The raw bytes of a tensor: little-endian; BYTES elements carry a 4-byte length before each."""
    if dtype == "BYTES":
        return b"".join(struct.pack("<I", len(data)) + data for data in (str(v).encode() for v in values))
    return struct.pack(f"<{len(values)}{_FORMATS[dtype]}", *values)


def unpack(dtype: str, raw: bytes) -> tuple[Any, ...]:
    """The values of a raw tensor: str for BYTES (UTF-8), bool, int or float for the others.

    Raises:
        KeyError: a dtype outside the contract's.
    """
    return _UNPACK[dtype](raw)


def json_fields(inputs: Sequence[tuple[Tensor, Sequence[Scalar]]]) -> dict[str, Any]:
    """The inputs as fields of a generate request: one value as itself where the row has dims [1], else a list."""
    return {row.name: values[0] if row.dims == (1,) else list(values) for row, values in inputs}


def _row(contract: RoleContract, name: str) -> Tensor:
    row = contract.input(name)
    if row is None:
        raise InvalidRequest("unknown_parameter", f"input '{name}': the model has no such input; leave it out.")
    return row


def _checked(row: Tensor, values: Sequence[Scalar]) -> Sequence[Scalar]:
    if row.dims == (1,) and len(values) != 1:
        raise InvalidRequest("wrong_count", f"{row.name}: {len(values)} values; it takes exactly one.")
    return tuple(_CHECKS[row.dtype](row, value) for value in values)


def _text(row: Tensor, value: Scalar) -> str:
    if not isinstance(value, str):
        raise _wrong_type(row, value, "text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            "invalid_text", f"{row.name}: {error.reason} at character {error.start}; it must be valid Unicode."
        ) from error
    return value


def _bool(row: Tensor, value: Scalar) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(row, value, "true or false")
    return value


def _integer(row: Tensor, value: Scalar) -> int:
    if isinstance(value, (bool, str)) or not hasattr(value, "__index__"):
        raise _wrong_type(row, value, "a whole number")
    low, high = _BOUNDS[row.dtype]
    if not low <= (number := value.__index__()) <= high:
        raise InvalidRequest("out_of_range", f"{row.name} {value}: {row.dtype} holds {low} to {high}.")
    return number


def _float(row: Tensor, value: Scalar) -> float:
    if isinstance(value, (bool, str)):
        raise _wrong_type(row, value, "a number")
    number = float(value)
    if not math.isfinite(number) or abs(number) > _LARGEST[row.dtype]:
        raise InvalidRequest("out_of_range", f"{row.name} {value}: it must be a finite {row.dtype} number.")
    return number


def _wrong_type(row: Tensor, value: object, rule: str) -> InvalidRequest:
    return InvalidRequest("wrong_type", f"{row.name} {value!r}: it must be {rule}.")


def _strings(raw: bytes) -> tuple[str, ...]:
    found, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        found.append(raw[at + 4 : end].decode())
        at = end
    return tuple(found)


def _numbers(code: str) -> Callable[[bytes], tuple[Any, ...]]:
    one = struct.Struct(f"<{code}")
    size = one.size

    def read(raw: bytes) -> tuple[Any, ...]:
        return one.unpack(raw) if len(raw) == size else struct.unpack(f"<{len(raw) // size}{code}", raw)

    return read


_CHECKS: Mapping[Dtype, Callable[[Tensor, Scalar], Scalar]] = {
    "BYTES": _text,
    "BOOL": _bool,
    "UINT8": _integer,
    "INT32": _integer,
    "INT64": _integer,
    "UINT64": _integer,
    "FP16": _float,
    "FP32": _float,
}
_UNPACK: Mapping[str, Callable[[bytes], tuple[Any, ...]]] = {
    "BYTES": _strings,
    **{dtype: _numbers(code) for dtype, code in _FORMATS.items()},
}
