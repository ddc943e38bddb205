"""The nouns of the tensor table: a row, and the table of one role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["DTYPES", "Dtype", "RoleContract", "Tensor"]

Dtype = Literal["BYTES", "BOOL", "UINT8", "INT32", "INT64", "UINT64", "FP16", "FP32"]

# Triton's wire names -> the names config.pbtxt uses.
DTYPES: Mapping[Dtype, str] = {
    "BYTES": "TYPE_STRING",
    "BOOL": "TYPE_BOOL",
    "UINT8": "TYPE_UINT8",
    "INT32": "TYPE_INT32",
    "INT64": "TYPE_INT64",
    "UINT64": "TYPE_UINT64",
    "FP16": "TYPE_FP16",
    "FP32": "TYPE_FP32",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row: ``dims`` without the batch dimension, -1 for any length.

    An input may be another client's name for a row of ours (``alias_of``), or one that is declared so that Triton
    lets it in, and refused by name when it is set to something: ``refused`` says why, and what to do instead.
    """

    name: str
    dtype: Dtype
    dims: tuple[int, ...]
    meaning: str
    optional: bool = True
    alias_of: str = ""
    refused: str = ""
    neutral: int = 0  # a refused number that asks for nothing, beside 0

    @property
    def is_scalar(self) -> bool:
        return self.dims == (1,)


@dataclass(frozen=True, slots=True)
class RoleContract:
    """The tensors of one role. ``max_batch_size`` 0 means no batch dimension."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch_size: int
    decoupled: bool

    def input(self, name: str) -> Tensor | None:
        return next((row for row in self.inputs if row.name == name), None)
