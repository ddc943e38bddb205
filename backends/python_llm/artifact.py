"""The engine artifact as read: ``artifact.json`` and the files it vouches for.

build_engines writes it (last, and atomically); whatever loads an engine checks it here before anything heavy
starts. A folder without artifact.json is no artifact.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from python_llm.errors import CallerMistake
from python_llm.records import RecordError, read_record

__all__ = [
    "MANIFEST",
    "SCHEMA",
    "Artifact",
    "ArtifactError",
    "FileRecord",
    "Limits",
    "Manifest",
    "ModelFacts",
    "Source",
    "sha256_of",
]

SCHEMA = 1
MANIFEST = "artifact.json"
_VERIFIED = ".verified.json"

# The package whose exact version must be the one that built the artifact, by kind. A checkpoint is built by none.
_RUNTIME_PACKAGE = {
    "openvino-ir": "openvino",
    "tensorrt_llm-engine": "tensorrt_llm",
    "onnx": "onnxruntime",
    "tensorrt-plan": "tensorrt",
}


class ArtifactError(CallerMistake):
    """The folder is no artifact this runtime can trust and load; the text says what, why and what to do."""


@dataclass(frozen=True)
class FileRecord:
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """Where the weights came from. ``files`` maps a weight file's name to its sha256."""

    id: str
    revision: str
    files: Mapping[str, str]
    licence: str


@dataclass(frozen=True)
class ModelFacts:
    architecture: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    end_token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """Limits of the build, in tokens or sequences; 0 where the engine has none of its own."""

    max_batch_size: int = 0
    max_input_len: int = 0
    max_seq_len: int = 0
    max_num_tokens: int = 0


@dataclass(frozen=True)
class Manifest:
    """The content of artifact.json."""

    schema: int
    name: str
    kind: str
    content_key: str
    source: Source
    model: ModelFacts
    quantisation: Mapping[str, Any]
    files: Mapping[str, FileRecord]
    builder: Mapping[str, str]
    tp: int = 1
    pp: int = 1
    world_size: int = 1
    limits: Limits = field(default_factory=Limits)
    quality: Mapping[str, Any] | None = None
    features: Mapping[str, Any] = field(default_factory=dict)  # what an engine for GPUs was built to do

    def to_json(self) -> str:
        """The file's text. ``seal`` is the sha256 of everything else, so that an edit of the manifest shows."""
        record = asdict(self)
        return json.dumps({**record, "seal": _seal(record)}, indent=2, sort_keys=True) + "\n"


@dataclass(frozen=True)
class Artifact:
    """An opened artifact: ``path`` is its folder."""

    path: Path
    manifest: Manifest

    @staticmethod
    def open(path: Path, *, verify: bool = False) -> Artifact:
        """Read the manifest and check every file against it.

        The full sha256 is computed once and remembered by size, mtime and inode; ``verify`` forces it again.

        Raises:
            ArtifactError: no manifest, another schema, or a file that is missing or differs.
        """
        artifact = Artifact(path, _read_manifest(path))
        artifact._check_files(verify)
        return artifact

    @property
    def kind(self) -> str:
        return self.manifest.kind

    def check_runtime(self) -> None:
        """Compare the builder's version with the installed one; reads metadata only, imports nothing heavy."""
        package = _RUNTIME_PACKAGE.get(self.kind)
        if package is None:
            return
        built = self.manifest.builder.get(package, "unknown")
        try:
            installed = version(package)
        except PackageNotFoundError:
            installed = "not installed"
        if built != installed:
            raise ArtifactError(
                f"artifact '{self.path}': built by {package} {built}, this runtime has {package} {installed}; "
                f"they must be equal: build it again with 'make build-engine', or install {package} {built}."
            )

    def _check_files(self, verify: bool) -> None:
        known = {} if verify else _read_verified(self.path)
        seen: dict[str, list[int]] = {}
        for name, record in self.manifest.files.items():
            file = self.path / name
            stamp = _stamp(file)
            if stamp is None:
                raise ArtifactError(f"artifact '{self.path}': file '{name}' is missing; build it again.")
            if stamp[0] != record.size:
                raise ArtifactError(
                    f"artifact '{self.path}': file '{name}' has {stamp[0]} bytes, the manifest says {record.size}; "
                    "it was cut or edited after the build: build it again with --force."
                )
            if known.get(name) != [*stamp, record.sha256] and sha256_of(file) != record.sha256:
                raise ArtifactError(
                    f"artifact '{self.path}': file '{name}' does not have the sha256 of the manifest; "
                    "it was edited after the build: build it again with --force."
                )
            seen[name] = [*stamp, record.sha256]  # type: ignore[list-item]
        if seen != known:
            _remember_verified(self.path, seen)


def sha256_of(path: Path) -> str:
    """The file's sha256 in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _read_manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    if not path.is_dir():
        raise ArtifactError(f"artifact '{path}': no such folder; build it with 'make build-engine'.")
    if not file.is_file():
        raise ArtifactError(
            f"artifact '{path}': no {MANIFEST}; an unfinished or foreign folder: build it with 'make build-engine'."
        )
    try:
        data = json.loads(file.read_text("utf-8"))
        if isinstance(data, dict) and data.get("schema") != SCHEMA:
            raise RecordError(
                f"schema {data.get('schema')!r}, this version reads schema {SCHEMA}; build it again with --force."
            )
        seal = data.pop("seal", None) if isinstance(data, dict) else None
        manifest = read_record(Manifest, data, MANIFEST)
        if seal != _seal(data):
            raise RecordError("it does not bear its own seal: it was edited; build it again with --force (FORCE=1).")
        return manifest
    except (OSError, ValueError, RecordError) as error:
        remedy = "" if isinstance(error, RecordError) else "; build it again with --force (FORCE=1)."
        raise ArtifactError(f"artifact '{path}', {MANIFEST}: {error}{remedy}") from error


def _seal(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _read_verified(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / _VERIFIED).read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # never verified here, or a torn cache: verify in full
    return found if isinstance(found, dict) else {}


def _remember_verified(path: Path, seen: Mapping[str, Any]) -> None:
    scratch = path / f"{_VERIFIED}.{os.getpid()}"
    try:
        scratch.write_text(json.dumps(seen), "utf-8")
        scratch.replace(path / _VERIFIED)
    except OSError:
        scratch.unlink(missing_ok=True) if os.access(
            path, os.W_OK
        ) else None  # a read-only folder is verified each time
