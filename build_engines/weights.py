"""Cheap checks of a folder's weight files: what is there, and whether each safetensors file is whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from build_engines.errors import CheckpointError

__all__ = ["check_safetensors", "find_weights"]

_INDEX = "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_LONGEST_HEADER = 100 << 20  # the format's own bound


def find_weights(folder: Path) -> tuple[Path, ...]:
    """The folder's safetensors files, each checked to be whole, all shards of an index present.

    Raises:
        CheckpointError: none, only pickled ones, a shard missing, or a damaged one.
    """
    files = _shards(folder) if (folder / _INDEX).is_file() else sorted(folder.glob("*.safetensors"))
    if not files:
        _refuse_without(folder)
    for file in files:
        check_safetensors(file)
    return tuple(files)


def _shards(folder: Path) -> list[Path]:
    index = folder / _INDEX
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(f"index '{index}': unreadable ({error}); fetch the checkpoint again.") from error
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"checkpoint '{folder}': {', '.join(missing)} missing; {_INDEX} names {len(names)} shards and all must "
            "be there: fetch the checkpoint again."
        )
    return [folder / name for name in names]


def _refuse_without(folder: Path) -> None:
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    if pickles:
        raise CheckpointError(
            f"checkpoint '{folder}': only pickled weights ({', '.join(pickles[:3])}); a pickle can run code when it "
            "is read, so weights must be safetensors: take a revision that has them, or convert them knowingly."
        )
    raise CheckpointError(
        f"checkpoint '{folder}': no weights; a folder must hold *.safetensors: finish the download or name another."
    )


def check_safetensors(path: Path) -> None:
    """Compare the header with the file's length; the tensors themselves are not read.

    Raises:
        CheckpointError: the file is cut or its header is damaged.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        prefix = stream.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
        if length + 8 > size or length > _LONGEST_HEADER:
            raise _damaged(path, f"{size} bytes, shorter than its own header")
        header = stream.read(length)
    try:
        entries = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _damaged(path, "an unreadable header") from error
    if 8 + length + end != size:
        raise _damaged(path, f"{size} bytes where its header says {8 + length + end}")


def _damaged(path: Path, found: str) -> CheckpointError:
    return CheckpointError(f"weights '{path}': {found}; the file is truncated or damaged: fetch it again.")
