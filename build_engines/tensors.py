"""The header of a safetensors file: what tensors it holds, checked against its length; no weight is read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError

__all__ = ["FLOATS", "TensorInfo", "read_header"]

_LFS_POINTER = b"version https://git-lfs.github.com/"
_LONGEST_HEADER = 100 << 20  # the format's own bound
# Bytes of an element, by the format's name of its type.
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1}
_SIZES |= {"U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class TensorInfo:
    dtype: str
    shape: tuple[int, ...]
    begin: int  # in the file
    end: int


def read_header(path: Path) -> Mapping[str, TensorInfo]:
    """The file's tensors by name.

    Raises:
        CheckpointError: the file is cut, or its header is damaged or contradicts itself.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        prefix = stream.read(8)
        if prefix == _LFS_POINTER[:8] and prefix + stream.read(len(_LFS_POINTER) - 8) == _LFS_POINTER:
            raise CheckpointError(
                f"weights '{path}': a pointer of Git LFS, not the weights; a clone without LFS has only these: run "
                "'git lfs pull' in it, or name the hub id."
            )
        stream.seek(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
        if length + 8 > size or length > _LONGEST_HEADER:
            raise _damaged(path, f"{size} bytes, shorter than its own header")
        header = stream.read(length)
    start = 8 + length
    try:
        record = json.loads(header)
        tensors = {name: _tensor(entry, start) for name, entry in record.items() if name != "__metadata__"}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _damaged(path, "an unreadable header") from error
    for name, tensor in tensors.items():
        _check(path, name, tensor)
    end = max((tensor.end for tensor in tensors.values()), default=start)
    if end != size:
        raise _damaged(path, f"{size} bytes where its header says {end}")
    return tensors


def _tensor(entry: Mapping[str, Any], start: int) -> TensorInfo:
    begin, end = entry["data_offsets"]
    return TensorInfo(str(entry["dtype"]), tuple(map(int, entry["shape"])), start + int(begin), start + int(end))


def _check(path: Path, name: str, tensor: TensorInfo) -> None:
    if tensor.dtype not in _SIZES:
        raise CheckpointError(
            f"weights '{path}': tensor '{name}' has the type '{tensor.dtype}'; known types: "
            f"{', '.join(sorted(_SIZES))}: give weights in F32, F16 or BF16."
        )
    needed = math.prod(tensor.shape) * _SIZES[tensor.dtype]
    if tensor.end - tensor.begin != needed:
        raise _damaged(
            path,
            f"tensor '{name}' has {tensor.end - tensor.begin} bytes where its type {tensor.dtype} and shape "
            f"{list(tensor.shape)} need {needed}",
        )


def _damaged(path: Path, found: str) -> CheckpointError:
    return CheckpointError(f"weights '{path}': {found}; the file is truncated or damaged: fetch it again.")
