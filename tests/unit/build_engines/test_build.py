from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from build_engines import artifact as artifact_module
from build_engines import build as build_module
from build_engines.build import build, make_plan
from build_engines.errors import BuildFailure, CheckpointError, StorageError
from build_engines.progress import Silent
from build_engines.spec import EngineSpec
from python_llm.artifact import Artifact
from tests.unit.build_engines.copy_builder import ENGINE_FILE

# Builds, and dies as only SIGKILL makes a process die when the phase in argv[4] begins.
KILLED = """
import os, signal, sys
from pathlib import Path
from build_engines.build import build
from build_engines.progress import Silent
from build_engines.spec import EngineSpec

class Dying(Silent):
    def phase(self, name):
        if name == sys.argv[4]:
            os.kill(os.getpid(), signal.SIGKILL)

spec = EngineSpec(model=sys.argv[1], name="model", engine="copy", quant=sys.argv[3], force=True)
build(spec, Path(sys.argv[2]), Dying())
"""
PHASES = ("locate", "hash", "import", "second half", "verify", "write", "publish")


def _spec(folder: Path, **knobs: Any) -> EngineSpec:
    return EngineSpec(**{"model": str(folder), "name": "model", "engine": "copy", "quant": "none", **knobs})


def _visible(engines: Path) -> list[str]:
    return sorted(path.name for path in engines.glob("*") if not path.name.startswith("."))


@pytest.fixture
def tiny_spec(tiny: Path, copy_engine: Path) -> EngineSpec:
    return _spec(tiny)


def test_the_manifest_says_what_was_built_of_what(tiny: Path, tiny_spec: EngineSpec, engines: Path) -> None:
    result = build(tiny_spec, engines)
    manifest = Artifact.open(engines / "model", verify=True).manifest
    assert manifest.to_json() == result.manifest.to_json()
    assert manifest.source.id == str(tiny)
    assert set(manifest.source.files) == {"model.safetensors"}
    assert {ENGINE_FILE, "config.json", "tokenizer.json"} <= set(manifest.files)
    assert {"openvino", "numpy", "triton-llm"} <= set(manifest.builder)
    assert _visible(engines) == ["model"]


def test_the_same_inputs_are_reused(tiny_spec: EngineSpec, engines: Path) -> None:
    first = build(tiny_spec, engines)
    inode = (engines / "model").stat().st_ino
    second = build(tiny_spec, engines)
    assert (first.reused, second.reused) == (False, True)
    assert (engines / "model").stat().st_ino == inode


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("quant", "its quant is none"),
        ("limit", "its settings or tokenizer differ"),
        ("weights", "its source is"),
        ("tokenizer", "its settings or tokenizer differ"),
    ],
)
def test_other_inputs_are_refused_and_forced_ones_replace(
    folder: Path, copy_engine: Path, engines: Path, change: str, said: str
) -> None:
    key = build(_spec(folder), engines).manifest.content_key
    knobs: dict[str, Any] = {}
    if change == "quant":
        knobs = {"quant": "int8"}
    elif change == "limit":
        knobs = {"max_seq_len": 512}
    else:
        file = folder / {"weights": "model.safetensors", "tokenizer": "tokenizer_config.json"}[change]
        data = file.read_bytes()
        file.write_bytes(data[:-3] + b"\x01" + data[-2:] if change == "weights" else data + b"\n")
    with pytest.raises(StorageError) as caught:
        build(_spec(folder, **knobs), engines)
    assert all(part in str(caught.value) for part in ("model'", "other inputs", said, "--force", "another name"))
    assert Artifact.open(engines / "model").manifest.content_key == key
    assert build(_spec(folder, force=True, **knobs), engines).manifest.content_key != key
    assert _visible(engines) == ["model"]


def test_another_version_of_the_builder_is_named(
    tiny: Path, copy_engine: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(_spec(tiny), engines)
    monkeypatch.setattr(artifact_module, "version", lambda name: "9.9.9")
    with pytest.raises(StorageError, match=r"built by openvino .*, here is 9.9.9"):
        build(_spec(tiny), engines)


def test_an_artifact_of_an_old_recipe_is_built_anew(
    tiny: Path, copy_engine: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(artifact_module, "RECIPE", "0")
        old = build(_spec(tiny), engines).manifest.content_key
    assert make_plan(_spec(tiny), engines).action == "replace"
    assert build(_spec(tiny), engines).manifest.content_key != old
    with pytest.raises(StorageError, match="other inputs"):
        build(_spec(tiny, max_seq_len=512), engines)


def test_a_folder_that_is_no_artifact_is_never_replaced(tiny: Path, copy_engine: Path, engines: Path) -> None:
    (engines / "model").mkdir(parents=True)
    (engines / "model" / "thesis.txt").write_text("years of work")
    with pytest.raises(StorageError, match=r"is no artifact; remove it or choose another name"):
        build(_spec(tiny, force=True), engines)
    assert (engines / "model" / "thesis.txt").is_file()


def test_a_damaged_artifact_is_not_reused_and_force_mends_it(tiny: Path, copy_engine: Path, engines: Path) -> None:
    build(_spec(tiny), engines)
    file = engines / "model" / ENGINE_FILE
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    with pytest.raises(Exception, match="sha256"):
        build(_spec(tiny), engines, verify=True)
    build(_spec(tiny, force=True), engines)
    Artifact.open(engines / "model", verify=True)


def _killed_at(phase: str, tiny: Path, engines: Path, site: Path, quant: str = "int8") -> None:
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(tiny), str(engines), quant, phase]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(site)}, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_build_leaves_nothing_that_looks_finished(tiny: Path, copy_engine: Path, engines: Path) -> None:
    old = build(_spec(tiny), engines).manifest.content_key
    for phase in PHASES:  # each finds the leftovers of the one before it
        _killed_at(phase, tiny, engines, copy_engine)
        assert _visible(engines) == ["model"]
        assert Artifact.open(engines / "model", verify=True).manifest.content_key == old
    assert build(_spec(tiny, quant="int8", force=True), engines).manifest.content_key != old
    assert {path.name for path in engines.iterdir()} == {"model", ".build-lock"}


def test_a_first_build_that_is_killed_leaves_no_artifact(tiny: Path, copy_engine: Path, engines: Path) -> None:
    _killed_at("publish", tiny, engines, copy_engine, quant="none")
    assert _visible(engines) == []
    build(_spec(tiny), engines)
    assert {path.name for path in engines.iterdir()} == {"model", ".build-lock"}


def test_a_builder_that_breaks_leaves_nothing(
    tiny_spec: EngineSpec, engines: Path, copy_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from build_engines.builders import find_builder

    monkeypatch.setattr(type(find_builder("copy")), "verify", _breaks)
    with pytest.raises(BuildFailure, match="does not run"):
        build(tiny_spec, engines)
    assert [path.name for path in engines.iterdir()] == [".build-lock"]


def _breaks(self: object, output: Path, vocab_size: int) -> None:
    raise BuildFailure("it does not run.")


def test_a_full_disk_is_one_clear_error(tiny_spec: EngineSpec, engines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(build_module, "write_manifest", full)
    with pytest.raises(StorageError, match=r"No space left.*the disk is full; free some space"):
        build(tiny_spec, engines)
    assert [path.name for path in engines.iterdir()] == [".build-lock"]


def test_a_plan_changes_nothing(tiny_spec: EngineSpec, engines: Path) -> None:
    assert make_plan(tiny_spec, engines).action == "build"
    assert not engines.exists()
    build(tiny_spec, engines)
    assert make_plan(tiny_spec, engines).action == "reuse"


def test_phases_come_in_order(tiny_spec: EngineSpec, engines: Path) -> None:
    class Recording(Silent):
        phases: list[str] = []  # noqa: RUF012

        def phase(self, name: str) -> None:
            self.phases.append(name)

    progress = Recording()
    build(tiny_spec, engines, progress)
    assert tuple(progress.phases) == PHASES


def test_a_tokenizer_that_cannot_be_converted_is_refused(folder: Path, copy_engine: Path, engines: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"no SentencePiece model")
    with pytest.raises(CheckpointError, match=r"cannot be made a tokenizer.json.*add the tokenizer.json"):
        build(_spec(folder), engines)
    assert _visible(engines) == []


def test_a_slow_tokenizer_is_made_a_fast_one(folder: Path, copy_engine: Path, engines: Path) -> None:
    record = json.loads((folder / "tokenizer.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(record["model"]["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in record["model"]["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    (folder / "tokenizer.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "GPT2Tokenizer"}))
    result = build(_spec(folder), engines)
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(result.path / "tokenizer.json"))
    assert made.decode(made.encode(" The ferry, 12").ids) == " The ferry, 12"
