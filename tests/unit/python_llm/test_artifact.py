"""Artifacts: only a whole, unedited folder of this schema and this engine's version is opened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm import artifact as artifact_module
from python_llm.artifact import (
    MANIFEST,
    SCHEMA,
    Artifact,
    ArtifactError,
    FileRecord,
    Limits,
    Manifest,
    ModelFacts,
    Source,
    sha256_of,
)

CONTENT = bytes(range(256)) * 8


def manifest_of(folder: Path, kind: str = "echo", builder: dict[str, str] | None = None) -> Manifest:
    files = {
        file.relative_to(folder).as_posix(): FileRecord(file.stat().st_size, sha256_of(file))
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".") and file.name != MANIFEST
    }
    return Manifest(
        schema=SCHEMA,
        name="x",
        kind=kind,
        content_key="k",
        source=Source("org/model", "abc", {"model.safetensors": "0" * 64}, "Apache-2.0"),
        model=ModelFacts("llama", 2, 64, 4, 2, 16, 512, 2048, (2, 0)),
        quantisation={"weights": "int8"},
        files=files,
        builder=builder or {},
    )


def make(folder: Path, **options: Any) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(CONTENT)
    (folder / "deep" / "tokenizer.json").write_text("{}", "utf-8")
    (folder / MANIFEST).write_text(manifest_of(folder, **options).to_json(), "utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "x")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose sha256 was computed, in order."""
    names: list[str] = []

    def counting(path: Path) -> str:
        names.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(artifact_module, "sha256_of", counting)
    return names


def test_a_whole_artifact_opens(folder: Path) -> None:
    opened = Artifact.open(folder)
    assert opened.kind == "echo"
    assert opened.manifest.model.end_token_ids == (2, 0)
    assert set(opened.manifest.files) == {"weights.bin", "deep/tokenizer.json"}


def test_a_manifest_written_and_read_is_the_same(folder: Path) -> None:
    manifest = replace(manifest_of(folder), limits=Limits(1, 2, 3, 4), quality={"perplexity": 1.5}, tp=2)
    (folder / MANIFEST).write_text(manifest.to_json(), "utf-8")
    assert Artifact.open(folder).manifest == manifest


def test_an_edited_manifest_is_refused(folder: Path) -> None:
    text = (folder / MANIFEST).read_text("utf-8")
    (folder / MANIFEST).write_text(text.replace('"layers": 2', '"layers": 3'), "utf-8")
    assert text != (folder / MANIFEST).read_text("utf-8")
    with pytest.raises(ArtifactError, match=r"artifact.json.*seal.*edited.*--force"):
        Artifact.open(folder)
    (folder / MANIFEST).write_text("{broken", "utf-8")
    with pytest.raises(ArtifactError, match=r"artifact.json.*line 1.*--force"):
        Artifact.open(folder)


def _edit_byte(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(b"\x01" + CONTENT[1:])


def _cut(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(CONTENT[:-1])


def _remove(folder: Path) -> None:
    (folder / "deep" / "tokenizer.json").unlink()


def _no_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def _no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def _no_folder_but_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("engine", "utf-8")


def _folder_in_place_of_a_file(folder: Path) -> None:
    (folder / "weights.bin").unlink()
    (folder / "weights.bin").mkdir()


def _rewrite(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = json.loads((folder / MANIFEST).read_text("utf-8")) | changes
        (folder / MANIFEST).write_text(json.dumps(data), "utf-8")

    return change


def _text(text: str | bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / MANIFEST).write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_edit_byte, ["'weights.bin'", "sha256", "edited", "--force"]),
        (_cut, ["'weights.bin'", "2047 bytes", "2048", "cut or edited", "--force"]),
        (_remove, ["'deep/tokenizer.json'", "missing", "build it again"]),
        (_folder_in_place_of_a_file, ["'weights.bin'"]),
        (_no_manifest, [MANIFEST, "make build-engine"]),
        (_no_folder, ["no such folder", "make build-engine"]),
        (_no_folder_but_a_file, ["no such folder", "make build-engine"]),
        (_rewrite(schema=SCHEMA + 1), [f"schema {SCHEMA + 1}", f"schema {SCHEMA}", "--force"]),
        (_rewrite(schema="1"), ["schema '1'"]),
        (_rewrite(knd="x"), ["unknown key 'knd'", "did you mean 'kind'"]),
        (_rewrite(tp="2"), ["key 'tp'", "a whole number"]),
        (_text("{"), ["artifact"]),
        (_text("[]"), ["JSON object"]),
        (_text("{}"), ["schema None"]),
        (_text(b"\xff"), ["utf-8"]),
    ],
)
def test_a_harmed_artifact_is_refused(folder: Path, harm: Callable[[Path], None], words: list[str]) -> None:
    Artifact.open(folder)  # what was verified before must not hide the harm
    harm(folder)
    with pytest.raises(ArtifactError) as caught:
        Artifact.open(folder)
    for word in [*words, str(folder)]:
        assert word in str(caught.value)
    assert caught.value.exit_code == 2


@given(position=st.integers(0, len(CONTENT) - 1), flip=st.integers(1, 255))
def test_any_edited_byte_is_found(position: int, flip: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = make(Path(scratch) / "x")
        content = bytearray(CONTENT)
        content[position] ^= flip
        (folder / "weights.bin").write_bytes(content)
        with pytest.raises(ArtifactError, match="sha256"):
            Artifact.open(folder)


def test_the_full_hash_is_computed_once(folder: Path, hashed: list[str]) -> None:
    Artifact.open(folder)
    assert sorted(hashed) == ["tokenizer.json", "weights.bin"]
    hashed.clear()
    Artifact.open(folder)
    assert hashed == []


def test_verify_forces_the_full_hash(folder: Path, hashed: list[str]) -> None:
    Artifact.open(folder)
    status = (folder / "weights.bin").stat()
    with (folder / "weights.bin").open("r+b") as stream:  # same inode, same size
        stream.write(b"\x01")
    os.utime(folder / "weights.bin", ns=(status.st_atime_ns, status.st_mtime_ns))
    hashed.clear()
    Artifact.open(folder)  # size, mtime and inode agree: believed
    assert hashed == []
    with pytest.raises(ArtifactError, match="sha256"):
        Artifact.open(folder, verify=True)


def test_a_file_touched_or_replaced_is_hashed_again(folder: Path, hashed: list[str]) -> None:
    Artifact.open(folder)
    hashed.clear()
    os.utime(folder / "weights.bin", ns=(1, 1))
    Artifact.open(folder)
    assert hashed == ["weights.bin"]
    hashed.clear()
    status = (folder / "weights.bin").stat()
    shutil.copy(folder / "weights.bin", folder / "copy")
    (folder / "copy").replace(folder / "weights.bin")
    os.utime(folder / "weights.bin", ns=(status.st_atime_ns, status.st_mtime_ns))
    Artifact.open(folder)  # another inode
    assert hashed == ["weights.bin"]


def test_a_new_manifest_does_not_believe_the_old_cache(folder: Path) -> None:
    Artifact.open(folder)
    manifest = manifest_of(folder)
    wrong = {**manifest.files, "weights.bin": FileRecord(len(CONTENT), "0" * 64)}
    (folder / MANIFEST).write_text(replace(manifest, files=wrong).to_json(), "utf-8")
    with pytest.raises(ArtifactError, match="sha256"):
        Artifact.open(folder)


@pytest.mark.parametrize("torn", ["", "[]", '{"weights.bin": 3}', '{"weights.bin"', "null"])
def test_a_torn_cache_means_a_full_check(folder: Path, torn: str) -> None:
    (folder / ".verified.json").write_text(torn, "utf-8")
    Artifact.open(folder)
    _edit_byte(folder)
    with pytest.raises(ArtifactError, match="sha256"):
        Artifact.open(folder)


def test_a_refused_artifact_is_not_remembered_as_verified(folder: Path) -> None:
    _edit_byte(folder)
    for _ in range(2):
        with pytest.raises(ArtifactError, match="sha256"):
            Artifact.open(folder)


def test_a_folder_that_cannot_be_written_opens() -> None:
    """In a process of its own, because root writes everywhere."""
    scratch = Path(tempfile.mkdtemp())
    try:
        folder = make(scratch / "x")
        scratch.chmod(0o755)
        for directory in (folder / "deep", folder):
            directory.chmod(0o555)
        program = (
            "import os, sys; from pathlib import Path; from python_llm.artifact import Artifact\n"
            "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
            "print(Artifact.open(Path(sys.argv[1])).kind)"
        )
        command = [sys.executable, "-c", program, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "echo\n"
        assert sorted(file.name for file in folder.iterdir()) == [MANIFEST, "deep", "weights.bin"]
    finally:
        for directory in (folder, folder / "deep"):
            directory.chmod(0o755)
        shutil.rmtree(scratch)


def test_the_engine_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    opened = Artifact.open(make(tmp_path / "old", kind="openvino-ir", builder={"openvino": "2023.0.0"}))
    with pytest.raises(ArtifactError) as caught:
        opened.check_runtime()
    for word in ("openvino 2023.0.0", f"openvino {version('openvino')}", "make build-engine", "install"):
        assert word in str(caught.value)


def test_the_engine_of_this_version_is_accepted(tmp_path: Path) -> None:
    builder = {"openvino": version("openvino")}
    Artifact.open(make(tmp_path / "now", kind="openvino-ir", builder=builder)).check_runtime()


@pytest.mark.parametrize(("kind", "package"), [("tensorrt_llm-engine", "tensorrt_llm"), ("openvino-ir", "openvino")])
def test_an_unknown_builder_or_a_missing_runtime_is_refused(tmp_path: Path, kind: str, package: str) -> None:
    opened = Artifact.open(make(tmp_path / "unknown", kind=kind))
    with pytest.raises(ArtifactError, match=f"{package} unknown"):
        opened.check_runtime()


def test_kinds_without_a_runtime_need_none(folder: Path) -> None:
    Artifact.open(folder).check_runtime()
