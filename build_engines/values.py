"""The weights' values: all must be finite, since one NaN makes every logit NaN. Read once, a piece at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from build_engines.errors import CheckpointError
from build_engines.tensors import FLOATS, TensorInfo

__all__ = ["check_finite"]

_PIECE = 1 << 22  # elements
# NaN and infinity have every bit of the exponent set: (how to read the bits, that mask).
_EXPONENTS: Mapping[str, tuple[str, int]] = {
    "BF16": ("<u2", 0x7F80),
    "F16": ("<u2", 0x7C00),
    "F32": ("<u4", 0x7F800000),
    "F64": ("<u8", 0x7FF0000000000000),
}


def check_finite(files: Mapping[Path, Mapping[str, TensorInfo]], subject: Path) -> None:
    """Refuse weights with a NaN or an infinity; ``subject`` is the checkpoint they came from.

    Raises:
        CheckpointError: there is one; the tensor is named.
    """
    for file, tensors in files.items():
        data = np.memmap(file, np.uint8, "r")
        for name, tensor in tensors.items():
            if tensor.dtype in FLOATS and not _is_finite(data[tensor.begin : tensor.end], tensor.dtype):
                raise CheckpointError(
                    f"checkpoint '{subject}': tensor '{name}' of its weights holds a NaN or an infinity; they must be "
                    "finite: the file is damaged or the training failed: fetch it again, or take another revision."
                )


def _is_finite(data: np.ndarray[tuple[int], np.dtype[np.uint8]], dtype: str) -> bool:
    kind, mask = _EXPONENTS[dtype]
    step = _PIECE * np.dtype(kind).itemsize
    for begin in range(0, len(data), step):
        bits = np.frombuffer(data[begin : begin + step], kind)
        if ((bits & np.array(mask, kind)) == mask).any():
            return False
    return True
