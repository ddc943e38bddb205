"""A request's tensors as the stub hands them over, from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from python_llm.contract import GENERATOR
from triton_python_backend_utils import Tensor

__all__ = ["tensors_of"]

_NUMPY = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
}


def tensors_of(values: Mapping[str, Any]) -> list[Tensor]:
    """Tensors of the generator's inputs, one value or a list of them, in shape [1, n]."""
    return [_tensor(name, value) for name, value in values.items()]


def _tensor(name: str, value: Any) -> Tensor:
    row = GENERATOR.input(name)
    assert row is not None, name
    items = value if isinstance(value, list) else [value]
    if row.dtype == "BYTES":
        items = [item.encode() if isinstance(item, str) else item for item in items]
        return Tensor(name, np.array([items], dtype=np.object_).reshape(1, len(items)))
    return Tensor(name, np.array([items], dtype=_NUMPY[row.dtype]))
