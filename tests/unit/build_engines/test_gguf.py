from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from build_engines.checkpoint import locate
from build_engines.errors import CheckpointError
from build_engines.gguf import check_gguf, gguf_licence, import_gguf
from build_engines.progress import Silent
from build_engines.spec import EngineSpec
from tests.unit.build_engines.tiny_gguf import permuted, renamed, write_gguf
from tiny_checkpoint import make_tiny_checkpoint

TEXTS = (
    "The ferry left the harbour.",
    " a leading space,  two, and\ttabs\n\n",
    "1996 and 3.14",
    "naïve café, 你好, 😀👩‍👩‍👧",
    "U+2581 \u2581 stays\u2581",
    "<|im_start|>user\nHi<|im_end|>\n",
)


@pytest.fixture(scope="session")
def gguf_file(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tiny, tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def imported(gguf_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    import_gguf((gguf_file,), folder)
    return folder


def test_the_weights_come_back_as_they_were(tiny: Path, imported: Path) -> None:
    before, after = load_file(tiny / "model.safetensors"), load_file(imported / "model.safetensors")
    assert before.keys() == after.keys()
    for name, weight in before.items():
        np.testing.assert_array_equal(weight, after[name])


def test_the_tokenizer_gives_the_models_own_tokens_and_adds_nothing(tiny: Path, imported: Path) -> None:
    own, made = (Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (tiny, imported))
    for text in TEXTS:
        ids = made.encode(text).ids
        assert ids == own.encode(text).ids
        assert made.decode(ids, skip_special_tokens=False) == text


def test_end_tokens_and_chat_template_are_the_files(tiny: Path, imported: Path) -> None:
    config, generation, settings = (
        json.loads((imported / name).read_text())
        for name in ("config.json", "generation_config.json", "tokenizer_config.json")
    )
    assert config["eos_token_id"] == generation["eos_token_id"] == [2]
    assert settings["eos_token"] == "<|im_end|>"
    assert settings["chat_template"] == json.loads((tiny / "tokenizer_config.json").read_text())["chat_template"]


def test_a_whole_file_passes_and_declares_its_licence(gguf_file: Path) -> None:
    check_gguf(gguf_file)
    assert gguf_licence(gguf_file) == "apache-2.0"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_cut_file_is_refused(gguf_file: Path, tmp_path: Path, share: float) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(gguf_file.read_bytes())
    os.truncate(cut, max(8, int(cut.stat().st_size * share)))
    with pytest.raises(CheckpointError) as caught:
        check_gguf(cut)
    assert all(part in str(caught.value) for part in (str(cut), "bytes", "truncated or damaged", "fetch it again"))


def test_another_file_with_the_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"PK\x03\x04 and more")
    with pytest.raises(CheckpointError, match="no GGUF file"):
        check_gguf(tmp_path / "x.gguf")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"general.architecture": "unheard_of"}, ["architecture 'unheard_of'", "llama", "Hugging Face checkpoint"]),
        ({"tokenizer.ggml.pre": "some-new-one"}, ["pre-tokenizer 'some-new-one'", "wrong tokens", "smollm"]),
        ({"tokenizer.ggml.pre": None}, ["pre-tokenizer 'default'"]),
        ({"tokenizer.ggml.model": "bert"}, ["tokenizer kind 'bert'", "gpt2, llama"]),
        ({"split.count": 3}, ["one part of several", "-00001-of-", "--merge"]),
    ],
)
def test_what_cannot_be_imported_is_refused_by_name(
    tiny: Path, tmp_path: Path, changes: dict[str, Any], parts: list[str]
) -> None:
    file = write_gguf(tiny, tmp_path / "odd.gguf", **changes)
    with pytest.raises(CheckpointError) as caught:
        import_gguf((file,), tmp_path / "out")
    assert all(part in str(caught.value) for part in [str(file), *parts])
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that K-quants' blocks of 256 divide."""
    folder = tmp_path_factory.mktemp("wide") / "checkpoint"
    return make_tiny_checkpoint(folder, hidden_size=256, layers=1, vocab_size=300)


KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_gguf_packages_own_dequantisation(wide: Path, tmp_path: Path, kind: str) -> None:
    from gguf import GGUFReader
    from gguf.quants import dequantize

    file = write_gguf(wide, tmp_path / "tiny.gguf", kind=kind)
    import_gguf((file,), tmp_path / "out")
    config = json.loads((wide / "config.json").read_text())
    held = {tensor.name: tensor for tensor in GGUFReader(file).tensors}
    assert {tensor.tensor_type.name for tensor in held.values()} == {"F32", kind}
    for name, weight in load_file(tmp_path / "out" / "model.safetensors").items():
        tensor = held[renamed(name)]
        expected = dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(weight, permuted(name, expected, config, back=True))
        assert weight.dtype == np.float32


@pytest.fixture
def split(tiny: Path, tmp_path: Path) -> list[Path]:
    write_gguf(tiny, tmp_path / "split.gguf", per_file=8)
    parts = sorted(tmp_path.glob("split-*.gguf"))
    assert [part.name for part in parts] == [f"split-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    return parts


def test_a_split_file_is_the_whole(split: list[Path], imported: Path, tmp_path: Path) -> None:
    found = locate(EngineSpec(model=str(split[1])), Silent())  # whichever part is named
    assert found.weights == tuple(split)
    folder = found.as_folder(tmp_path / "out")
    whole, joined = load_file(imported / "model.safetensors"), load_file(folder / "model.safetensors")
    assert whole.keys() == joined.keys()
    assert all(np.array_equal(whole[name], joined[name]) for name in whole)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (folder / name).read_bytes() == (imported / name).read_bytes()
    assert not list(tmp_path.glob("*joined*"))


def test_a_missing_part_is_named(split: list[Path]) -> None:
    split[2].unlink()
    with pytest.raises(CheckpointError, match=r"split-00003-of-00003.gguf missing.*all 3 parts"):
        locate(EngineSpec(model=str(split[0])), Silent())


def test_parts_that_were_renamed_are_refused(split: list[Path], tmp_path: Path) -> None:
    spare = split[1].rename(tmp_path / "spare")
    split[2].rename(split[1])
    spare.rename(split[2])
    with pytest.raises(CheckpointError, match=r"part 2 \(from 0\) of 3, by its name part 1"):
        locate(EngineSpec(model=str(split[0])), Silent()).as_folder(tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_a_nan_in_a_gguf_is_found(tiny: Path, tmp_path: Path) -> None:
    file = write_gguf(tiny, tmp_path / "tiny.gguf")
    data = bytearray(file.read_bytes())
    data[-4:] = np.float32(np.nan).tobytes()
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"tiny\.gguf': tensor .* NaN"):
        locate(EngineSpec(model=str(file)), Silent()).as_folder(tmp_path / "out")
