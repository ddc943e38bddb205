"""A GGUF file with weights as wide as the artifact's, out of the one that it was built from: a peer's same model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["peer_gguf"]


@dataclass(frozen=True)
class _Kind:
    """``kept``: what a matrix may be already; ``ends``: of the embeddings and the last layer, as llama.cpp's own tool
    leaves them wider."""

    matrices: str
    file_type: str
    kept: frozenset[str]
    ends: frozenset[str] = frozenset()


_EIGHT = _Kind("Q8_0", "MOSTLY_Q8_0", frozenset({"Q8_0"}))
_KINDS: Mapping[str, _Kind] = {
    "int4": _Kind(
        "Q4_0", "MOSTLY_Q4_0", frozenset({"Q4_0", "Q4_1", "Q4_K"}), frozenset({"Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0"})
    ),
}
_ENDS = ("token_embd.weight", "output.weight")


def peer_gguf(source: Path, folder: Path, weights: str) -> Path:
    """The file in ``folder``, written once: matrices dequantised and quantised anew, the rest as it stands.

    ``weights``: the artifact's, as ``artifact.json`` names them; int4 makes Q4_0 with embeddings of 8 bits, where the
    source has not 4 bits already, and all others Q8_0. A source of F32, F16, BF16 loses what that type loses; one
    that is coarser is held exactly to a rounding of it.
    """
    kind = _KINDS.get(weights, _EIGHT)
    stat = source.stat()
    key = hashlib.sha256(f"{source.resolve()}/{stat.st_size}/{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    target = folder / f"{source.stem}.{kind.matrices}.{key}.gguf"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        _write(source, part, kind)
        part.rename(target)
    return target


def _write(source: Path, target: Path, kind: _Kind) -> None:
    from gguf import GGUFReader, GGUFWriter

    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            _copy_field(writer, name, field, kind)
    for tensor in reader.tensors:
        _copy_tensor(writer, tensor, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_field(writer: Any, name: str, field: Any, kind: _Kind) -> None:
    from gguf import GGUFValueType, LlamaFileType

    of_value = field.types[0]
    value = int(LlamaFileType[kind.file_type]) if name == "general.file_type" else field.contents()
    of_items = field.types[-1] if of_value == GGUFValueType.ARRAY else None
    writer.add_key_value(name, value, of_value, sub_type=of_items)


def _copy_tensor(writer: Any, tensor: Any, kind: _Kind) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    is_end = bool(kind.ends) and tensor.name in _ENDS
    kept = kind.kept | kind.ends if is_end else kind.kept
    if len(tensor.shape) < 2 or tensor.tensor_type.name in kept:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        return
    wanted = GGMLQuantizationType[_EIGHT.matrices if is_end else kind.matrices]
    writer.add_tensor(tensor.name, quantize(dequantize(tensor.data, tensor.tensor_type), wanted), raw_dtype=wanted)
