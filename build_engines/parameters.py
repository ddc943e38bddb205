"""How many weights a checkpoint has, from its headers alone."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

from build_engines.checkpoint import Checkpoint

__all__ = ["Parameters", "count_parameters"]


@dataclass(frozen=True)
class Parameters:
    count: int
    bytes: int  # as the checkpoint stores them


def count_parameters(checkpoint: Checkpoint) -> Parameters:
    """Elements and bytes of every tensor. The files were checked when the checkpoint was located."""
    count = sum(_gguf(file) if checkpoint.is_gguf else _safetensors(file) for file in checkpoint.weights)
    return Parameters(count, checkpoint.size)


def _safetensors(path: Path) -> int:
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _gguf(path: Path) -> int:
    import gguf

    return sum(int(tensor.n_elements) for tensor in gguf.GGUFReader(path).tensors)
