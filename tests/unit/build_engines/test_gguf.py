from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from build_engines.errors import CheckpointError
from build_engines.gguf import check_gguf, gguf_licence, import_gguf
from tests.unit.build_engines.tiny_gguf import write_gguf

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
    import_gguf(gguf_file, folder)
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
        ({"split.count": 3}, ["split GGUF", "--merge"]),
    ],
)
def test_what_cannot_be_imported_is_refused_by_name(
    tiny: Path, tmp_path: Path, changes: dict[str, Any], parts: list[str]
) -> None:
    file = write_gguf(tiny, tmp_path / "odd.gguf", **changes)
    with pytest.raises(CheckpointError) as caught:
        import_gguf(file, tmp_path / "out")
    assert all(part in str(caught.value) for part in [str(file), *parts])
    assert not (tmp_path / "out").exists()
