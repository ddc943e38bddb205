"""From plain Python values to output arrays, by the contract's rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from python_llm.contract import RoleContract, Tensor

__all__ = ["output_arrays"]

_NUMPY: Mapping[str, Any] = {
    "BOOL": np.bool_,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "FP32": np.float32,
}


def output_arrays(values: Mapping[str, Any], contract: RoleContract) -> dict[str, npt.NDArray[Any]]:
    """Arrays of shape [1, n] for the rows that ``values`` names, in the contract's order."""
    return {row.name: _array(row, values[row.name]) for row in contract.outputs if row.name in values}


def _array(row: Tensor, value: Any) -> npt.NDArray[Any]:
    items = list(value) if row.dims != (1,) else [value]
    if row.dtype == "BYTES":
        return np.array([[item.encode() for item in items]], dtype=np.object_)
    return np.array(items, dtype=_NUMPY[row.dtype]).reshape(1, len(items))
