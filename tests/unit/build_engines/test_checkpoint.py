from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from build_engines.checkpoint import locate
from build_engines.errors import CheckpointError
from build_engines.progress import Silent
from build_engines.spec import EngineSpec


def _locate(model: Path | str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        locate(EngineSpec(model=str(model), name="x"), Silent())
    return caught.value


def _config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_folder_is_itself_with_its_hashes(tiny: Path, tmp_path: Path) -> None:
    found = locate(EngineSpec(model=str(tiny)), Silent())
    weights, others = found.hashes(Silent())
    assert set(weights) == {"model.safetensors"}
    assert set(others) == {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    assert found.size == (tiny / "model.safetensors").stat().st_size
    assert found.as_folder(tmp_path) == tiny
    assert found.licence == "unknown"


def test_the_licence_is_the_model_cards(folder: Path) -> None:
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\n")
    assert locate(EngineSpec(model=str(folder)), Silent()).licence == "apache-2.0"


def _empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


BROKEN: list[tuple[Callable[[Path], object], list[str]]] = [
    (_empty, ["the folder is empty", "finish the download"]),
    (lambda f: (f / "config.json").unlink(), ["no config.json"]),
    (lambda f: (f / "config.json").write_text("{"), ["config", "unreadable", "fetch"]),
    (lambda f: (f / "config.json").write_text("[]"), ["must be a JSON object"]),
    (lambda f: _config(f, model_type=""), ["names no model_type"]),
    (lambda f: _config(f, quantization_config={"quant_method": "gptq"}), ["already quantised (gptq)", "original"]),
    (lambda f: (f / "model.safetensors").unlink(), ["no weights"]),
    (lambda f: (f / "tokenizer.json").unlink(), ["no tokenizer", "tokenizer.json"]),
]


@pytest.mark.parametrize(("damage", "parts"), BROKEN)
def test_a_broken_folder_is_one_clear_error(folder: Path, damage: Callable[[Path], object], parts: list[str]) -> None:
    damage(folder)
    text = str(_locate(folder))
    assert all(part in text for part in [str(folder), *parts])


def test_a_missing_folder_says_what_may_be_given(tmp_path: Path) -> None:
    text = str(_locate(tmp_path / "nowhere"))
    assert all(part in text for part in ("nowhere", "no such folder", "smollm2", "owner/model"))


def test_a_missing_gguf_file(tmp_path: Path) -> None:
    assert "no such file" in str(_locate(tmp_path / "none.gguf"))


def test_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "no GGUF file" in str(_locate(tmp_path / "notes.txt"))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_one_file_of_a_checkpoint_is_sent_to_its_folder(tiny: Path, name: str) -> None:
    text = str(_locate(tiny / name))
    assert f"name its folder, '{tiny}'" in text


@pytest.mark.parametrize("address", ["http://127.0.0.1/owner/model", "hf://owner/model"])
def test_an_address_is_no_source(address: str) -> None:
    text = str(_locate(address))
    assert all(part in text for part in (address, "an address", "'owner/model' alone"))


def test_a_folder_may_be_called_like_a_file(folder: Path) -> None:
    for name in ("model.gguf", "model.zip"):
        folder = folder.rename(folder.with_name(name))
        assert locate(EngineSpec(model=str(folder)), Silent()).path == folder


def test_a_revision_of_what_has_none_is_refused(tiny: Path) -> None:
    for model in (str(tiny), "smollm2"):
        with pytest.raises(CheckpointError, match=r"revision 'main': only a hub id has revisions.*leave it out"):
            locate(EngineSpec(model=model, revision="main"), Silent())
