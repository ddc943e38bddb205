"""What a block consists of, and the key under which such blocks are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from python_llm.engines.paged.kv_host import Content

__all__ = ["BlockLayout", "key_of"]

_FORMAT = 2  # of what is stored; another number makes other keys


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """``tensors``: name, shape [1, ...] and dtype of each part of one block, in the order in which they are stored."""

    tensors: tuple[tuple[str, tuple[int, ...], str], ...]

    @staticmethod
    def of(content: Content) -> BlockLayout:
        return BlockLayout(tuple((name, array.shape, array.dtype.str) for name, array in sorted(content.items())))

    @property
    def nbytes(self) -> int:
        return sum(prod(shape) * np.dtype(dtype).itemsize for _, shape, dtype in self.tensors)

    def pack(self, content: Content) -> list[memoryview]:
        return [np.ascontiguousarray(content[name]).reshape(-1).view(np.uint8).data for name, *_ in self.tensors]

    def unpack(self, data: memoryview) -> Content:
        """The arrays are views of ``data``. ValueError where it has another size."""
        if data.nbytes != self.nbytes:
            raise ValueError(f"a block of {data.nbytes} bytes; it must have {self.nbytes}.")
        content, begin = {}, 0
        for name, shape, dtype in self.tensors:
            content[name] = np.frombuffer(data, dtype, prod(shape), begin).reshape(shape)
            begin += content[name].nbytes
        return content


def key_of(identity: Mapping[str, Any], layout: BlockLayout) -> bytes:
    """32 bytes for everything that a block's content depends on beside its tokens."""
    said = json.dumps({"format": _FORMAT, "identity": dict(identity), "layout": layout.tensors}, sort_keys=True)
    return blake2b(said.encode(), digest_size=32).digest()
