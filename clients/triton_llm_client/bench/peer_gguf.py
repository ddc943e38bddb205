"""A GGUF file with 8-bit weights out of the one that the artifact was built from: the same model for a peer."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

__all__ = ["eight_bit_gguf"]

_WANTED = "Q8_0"


def eight_bit_gguf(source: Path, folder: Path) -> Path:
    """The file in ``folder``, written once: matrices dequantised and quantised anew to Q8_0, the rest as it stands.

    A source of F32, F16, BF16 or Q8_0 loses what Q8_0 loses; a coarser one is held exactly to a rounding of 8 bits.
    """
    stat = source.stat()
    key = hashlib.sha256(f"{source.resolve()}/{stat.st_size}/{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    target = folder / f"{source.stem}.{_WANTED}.{key}.gguf"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        _write(source, part)
        part.rename(target)
    return target


def _write(source: Path, target: Path) -> None:
    from gguf import GGUFReader, GGUFWriter

    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            _copy_field(writer, name, field)
    for tensor in reader.tensors:
        _copy_tensor(writer, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_field(writer: Any, name: str, field: Any) -> None:
    from gguf import GGUFValueType, LlamaFileType

    kind = field.types[0]
    value = int(LlamaFileType.MOSTLY_Q8_0) if name == "general.file_type" else field.contents()
    writer.add_key_value(name, value, kind, sub_type=field.types[-1] if kind == GGUFValueType.ARRAY else None)


def _copy_tensor(writer: Any, tensor: Any) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    is_matrix = len(tensor.shape) >= 2
    if not is_matrix or tensor.tensor_type == GGMLQuantizationType.Q8_0:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        return
    kind = GGMLQuantizationType[_WANTED]
    writer.add_tensor(tensor.name, quantize(dequantize(tensor.data, tensor.tensor_type), kind), raw_dtype=kind)
