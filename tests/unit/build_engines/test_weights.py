from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from build_engines.errors import CheckpointError
from build_engines.tensors import read_header
from build_engines.weights import find_weights


def test_a_whole_file_passes(tiny: Path) -> None:
    assert [file.name for file in find_weights(tiny)] == ["model.safetensors"]


@pytest.mark.parametrize("keep", [4, 100, -1])
def test_a_cut_file_is_refused_without_reading_it(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    os.truncate(file, keep if keep > 0 else file.stat().st_size + keep)
    with pytest.raises(CheckpointError) as caught:
        read_header(file)
    for part in (str(file), "bytes", "truncated or damaged", "fetch it again"):
        assert part in str(caught.value)


def test_a_damaged_header_is_refused(folder: Path) -> None:
    file = folder / "model.safetensors"
    with file.open("r+b") as stream:
        stream.seek(8)
        stream.write(b"not json")
    with pytest.raises(CheckpointError, match="unreadable header"):
        read_header(file)


def test_pickled_weights_alone_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError) as caught:
        find_weights(folder)
    for part in (str(folder), "pytorch_model.bin", "can run code", "safetensors"):
        assert part in str(caught.value)


def test_no_weights_at_all(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no weights.*safetensors.*download"):
        find_weights(folder)


def test_every_shard_of_the_index_must_be_there(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002.safetensors missing.*2 shards"):
        find_weights(folder)


def test_an_index_that_cannot_be_read(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"index.*unreadable"):
        find_weights(folder)
