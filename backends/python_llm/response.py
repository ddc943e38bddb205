"""From plain Python values to output arrays, by the contract's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from python_llm.contract import RoleContract, Tensor

__all__ = ["NUMPY", "output_arrays"]

NUMPY: Mapping[str, Any] = {
    "BYTES": np.object_,
    "BOOL": np.bool_,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "FP32": np.float32,
}
_Array = npt.NDArray[Any]


def output_arrays(values: Mapping[str, Any], contract: RoleContract) -> dict[str, _Array]:
    """Arrays of shape [1, n] for the rows that ``values`` names, in the contract's order.

    No array is in two responses: the stub lets go of them without holding Python's lock.

    A value is one item or a sequence of items; of a row with two dims a sequence of rows, which are filled up with 0.
    """
    return {row.name: _array(row, values[row.name]) for row in contract.outputs if row.name in values}


def _array(row: Tensor, value: Any) -> _Array:
    items = value if isinstance(value, (list, tuple)) else (value,)
    if not items:
        return np.zeros((1, *[0] * len(row.dims)), dtype=NUMPY[row.dtype])
    if len(row.dims) > 1:
        return _table(row, items)
    if row.dtype == "BYTES":
        return np.array([[item.encode() for item in items]], dtype=np.object_)
    return np.array(items, dtype=NUMPY[row.dtype]).reshape(1, len(items))


def _table(row: Tensor, lines: Sequence[Sequence[Any]]) -> _Array:
    array = np.zeros((1, len(lines), max(map(len, lines))), dtype=NUMPY[row.dtype])
    for number, line in enumerate(lines):
        array[0, number, : len(line)] = line
    return array
