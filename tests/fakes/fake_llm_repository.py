"""A model repository for the fake backend ``fake_llm``, with artifacts that open."""

from __future__ import annotations

from pathlib import Path

from python_llm.artifact import FileRecord, Limits, Manifest, ModelFacts, Source, sha256_of
from python_llm.settings import ModelEntry

__all__ = ["FAKE_BACKEND", "write_artifact", "write_entry"]

FAKE_BACKEND = Path(__file__).parent / "fake_llm"


def write_artifact(folder: Path, *, kind: str = "fake", built_by: str | None = None) -> Path:
    """An artifact of one file; ``built_by`` is the openvino version the manifest names."""
    folder.mkdir(parents=True)
    weights = folder / "weights.bin"
    weights.write_bytes(b"weights")
    manifest = Manifest(
        schema=1,
        name=folder.name,
        kind=kind,
        content_key="0",
        source=Source("fake", "", {}, ""),
        model=ModelFacts("Fake", 1, 1, 1, 1, 1, 1, 1, (0,)),
        quantisation={},
        files={weights.name: FileRecord(weights.stat().st_size, sha256_of(weights))},
        builder={} if built_by is None else {"openvino": built_by},
        limits=Limits(),
    )
    (folder / "artifact.json").write_text(manifest.to_json(), "utf-8")
    return folder


def write_entry(repository: Path, name: str, artifact: Path) -> Path:
    """A generator entry served by the fake backend."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text('backend: "fake_llm"\n', "utf-8")
    (version / "model.json").write_text(ModelEntry("generator", str(artifact)).to_json(), "utf-8")
    return version.parent
