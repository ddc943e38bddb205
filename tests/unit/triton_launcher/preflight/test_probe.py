from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_gpus import GIB, install_gpus
from python_llm.artifact import MANIFEST, SCHEMA, FileRecord, Limits, Manifest, ModelFacts, Source, sha256_of
from python_llm.settings import ModelEntry
from triton_launcher.errors import LaunchRefused
from triton_launcher.preflight import probe as probe_module
from triton_launcher.preflight.probe import probe
from triton_launcher.repository import Entry, check_entries


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    folder = tmp_path / "engines" / "model"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 41}}}), "utf-8")
    (folder / "rank0.engine").write_bytes(b"engine")
    files = {file.name: FileRecord(file.stat().st_size, sha256_of(file)) for file in folder.iterdir()}
    manifest = Manifest(
        schema=SCHEMA,
        name="model",
        kind="tensorrt_llm-engine",
        content_key="key",
        source=Source("model", "", {}, ""),
        model=ModelFacts("LlamaForCausalLM", 2, 64, 4, 2, 16, 40, 2048, (2,)),
        quantisation={"weights": "none"},
        files=files,
        builder={"tensorrt_llm": "1.2.1"},
        limits=Limits(8, 128, 128, 1024),
    )
    (folder / MANIFEST).write_text(manifest.to_json(), "utf-8")
    return folder


def test_gpus_are_what_the_driver_says(tmp_path: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(install_gpus(tmp_path / "bin", 2, free=3 * GIB)), prepend=":")
    found = probe(artifact)
    assert [(gpu.name, gpu.capability, gpu.free) for gpu in found.gpus] == [("NVIDIA H100", "9.0", 3 * GIB)] * 2
    assert found.tokenizer_ids == 42


def test_adapters_say_their_rank(artifact: Path) -> None:
    (artifact / "one").mkdir()
    (artifact / "one" / "adapter_config.json").write_text('{"r": 24}', "utf-8")
    assert probe(artifact, ("one", "two")).lora_ranks == {"one": 24}


def test_nothing_starts_and_every_problem_is_told(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_module, "_version", lambda package: "")
    monkeypatch.setattr(probe_module, "visible_gpus", lambda: ())
    entries = [_entry(tmp_path, role, artifact) for role in ("tokenizer", "generator")]
    with pytest.raises(LaunchRefused) as caught:
        check_entries(entries)
    lines = str(caught.value).splitlines()
    assert lines[0] == "nothing was started:"
    assert len(lines) == 4  # of the generator alone: library, GPUs, tokenizer
    assert all(line.startswith("  model-generator: ") for line in lines[1:])
    assert caught.value.exit_code == 2


def test_what_is_here_decides(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the library and a GPU only the tokenizer of another model is left to tell."""
    monkeypatch.setattr(probe_module, "_version", lambda package: "1.2.1" if package == "tensorrt_llm" else "")
    monkeypatch.setenv("PATH", str(install_gpus(tmp_path / "bin")), prepend=":")
    entry = _entry(tmp_path, "generator", artifact)
    with pytest.raises(LaunchRefused) as caught:
        check_entries([entry])
    assert str(caught.value).splitlines()[1:] == [
        "  model-generator: tokenizer: it has 42 ids, the model's vocabulary is 40; they are of two models: build it "
        "again with 'make build-engine' from one checkpoint."
    ]
    monkeypatch.setattr(probe_module, "_tokenizer_ids", lambda file: 40)
    check_entries([entry])


def _entry(folder: Path, role: str, artifact: Path) -> Entry:
    file = folder / role / "model.json"
    file.parent.mkdir()
    file.write_text(ModelEntry(role=role, artifact=str(artifact)).to_json(), "utf-8")  # type: ignore[arg-type]
    return Entry(f"model-{role}", file)
