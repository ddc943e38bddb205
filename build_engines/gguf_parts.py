"""A GGUF model in several files: NAME-00001-of-0000N.gguf and so on; the first holds the metadata."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError

__all__ = ["join_parts", "parts_of"]

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def parts_of(path: Path) -> tuple[Path, ...]:
    """Every part of the model of which ``path`` is one, in order; ``path`` alone where it is whole.

    Raises:
        CheckpointError: a part is missing.
    """
    match = _PART.fullmatch(path.name)
    if match is None:
        return (path,)
    count = int(match["count"])
    parts = [path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise CheckpointError(
            f"model '{path}': {', '.join(missing[:3])} missing; all {count} parts must lie in one folder: fetch the "
            "others."
        )
    return tuple(parts)


def join_parts(parts: tuple[Path, ...], target: Path) -> None:
    """Write one file with the first part's metadata and every part's tensors, as they are.

    Raises:
        CheckpointError: the parts are of two models.
    """
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    readers = [GGUFReader(part) for part in parts]
    for number, (part, reader) in enumerate(zip(parts, readers, strict=True)):
        said = tuple(_number(reader, key) for key in ("split.no", "split.count"))
        if said != (number, len(parts)):
            raise CheckpointError(
                f"model '{part}': by its metadata it is part {said[0]} (from 0) of {said[1]}, by its name part "
                f"{number} of {len(parts)}; the parts must be of one model: fetch them again."
            )
    first = readers[0]
    writer = GGUFWriter(target, str(first.fields["general.architecture"].contents()))
    for name, field in first.fields.items():
        if not name.startswith(("GGUF.", "split.")) and name != "general.architecture":
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    tensors = [tensor for reader in readers for tensor in reader.tensors]
    for tensor in tensors:
        data = tensor.data
        writer.add_tensor_info(tensor.name, data.shape, data.dtype, data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        writer.write_tensor_data(tensor.data)
    writer.close()


def _number(reader: Any, key: str) -> int:
    field = reader.fields.get(key)
    return int(field.contents()) if field is not None else -1
