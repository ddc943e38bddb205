"""The weight files of a Hugging Face folder: which they are, and whether shards and index agree."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from build_engines.errors import CheckpointError
from build_engines.tensors import TensorInfo, read_header

__all__ = ["find_weights"]

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
# Tensors that only a quantised checkpoint has, whatever its configuration says.
_PACKED = {".qweight": "GPTQ or AWQ", ".qzeros": "GPTQ or AWQ", ".absmax": "bitsandbytes", ".weight_packed": "packed"}


def find_weights(folder: Path, *, quantised: bool = False) -> Mapping[Path, Mapping[str, TensorInfo]]:
    """The folder's safetensors files with their headers: one file, or all the shards of an index.

    Other safetensors files of the folder (an adapter, a second copy in another layout) are not looked at.
    ``quantised``: packed weights are let pass.

    Raises:
        CheckpointError: none, only pickled ones, a shard missing or stray, an index that disagrees, a damaged file, or
            weights that are already quantised.
    """
    if (folder / _INDEX).is_file():
        found = _shards(folder)
    elif (folder / _SINGLE).is_file():
        found = {folder / _SINGLE: read_header(folder / _SINGLE)}
    else:
        raise _without(folder)
    for tensors in () if quantised else found.values():
        _refuse_packed(folder, tensors)
    return found


def _shards(folder: Path) -> dict[Path, Mapping[str, TensorInfo]]:
    placed = _read_index(folder)
    names = sorted(set(placed.values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise CheckpointError(
            f"index '{folder / _INDEX}': shard '{outside[0]}' lies outside the folder; a shard's name is a plain file "
            "name: do not use this checkpoint."
        )
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"checkpoint '{folder}': {', '.join(missing)} missing; {_INDEX} names {len(names)} shards and all must "
            "be there: fetch the checkpoint again."
        )
    stray = sorted(file.name for file in folder.iterdir() if _SHARD.fullmatch(file.name) and file.name not in names)
    if stray:
        raise CheckpointError(
            f"checkpoint '{folder}': {stray[0]} is a shard that {_INDEX} does not name; the folder mixes two "
            "checkpoints: remove what is not this model's, or fetch it again."
        )
    found = {folder / name: read_header(folder / name) for name in names}
    _compare(folder, placed, {file.name: tensors for file, tensors in found.items()})
    return found


def _read_index(folder: Path) -> dict[str, str]:
    index = folder / _INDEX
    try:
        placed = json.loads(index.read_text("utf-8"))["weight_map"]
        return {str(tensor): str(shard) for tensor, shard in placed.items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"index '{index}': unreadable ({error}); fetch the checkpoint again.") from error


def _compare(folder: Path, placed: Mapping[str, str], held: Mapping[str, Mapping[str, TensorInfo]]) -> None:
    """Every tensor of the index lies in its shard, and every tensor of a shard in the index."""
    for tensor, shard in placed.items():
        if tensor not in held[shard]:
            raise _disagree(folder, f"it places '{tensor}' in {shard}, which does not hold it")
    for shard, tensors in held.items():
        for tensor in tensors:
            if placed.get(tensor) != shard:
                raise _disagree(
                    folder, f"{shard} holds '{tensor}', which it places in {placed.get(tensor, 'no shard')}"
                )


def _disagree(folder: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"index '{folder / _INDEX}': {found}; index and shards must agree: fetch the checkpoint again."
    )


def _refuse_packed(folder: Path, tensors: Mapping[str, TensorInfo]) -> None:
    for name, tensor in tensors.items():
        kind = next((kind for ending, kind in _PACKED.items() if name.endswith(ending)), None)
        kind = kind or ("fp8" if tensor.dtype.startswith("F8_") else None)
        if kind:
            raise CheckpointError(
                f"checkpoint '{folder}': tensor '{name}' ({tensor.dtype}) is already quantised ({kind}); a build "
                "quantises by itself: give the original weights."
            )


def _without(folder: Path) -> CheckpointError:
    shards = sorted(file.name for file in folder.glob("*.safetensors"))
    if shards:
        return CheckpointError(
            f"checkpoint '{folder}': {', '.join(shards[:3])} without {_INDEX}; shards need their index, and a single "
            f"file is called {_SINGLE}: fetch the checkpoint again."
        )
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    if pickles:
        return CheckpointError(
            f"checkpoint '{folder}': only pickled weights ({', '.join(pickles[:3])}); a pickle can run code when it "
            "is read, so weights must be safetensors: take a revision that has them, or convert them knowingly."
        )
    return CheckpointError(
        f"checkpoint '{folder}': no weights; a folder must hold *.safetensors: finish the download or name another."
    )
