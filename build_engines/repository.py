"""The Triton model repository: entries are data only, written from the tensor table."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from build_engines.errors import StorageError, storage_errors
from build_engines.spec import check_name
from python_llm.contract import DTYPES, ROLES, RoleContract, Tensor, generator_model
from python_llm.records import RecordError
from python_llm.settings import ModelEntry, ServingConfig

__all__ = ["Entry", "add_entry", "list_entries", "remove_entry", "render_config"]

_BACKEND = "python_llm"


@dataclass(frozen=True)
class Entry:
    """One Triton model of ours in a repository."""

    model: str  # as Triton names it
    role: str
    artifact: Path
    present: bool  # whether the artifact is there


def render_config(model: str, contract: RoleContract) -> str:
    """The text of config.pbtxt."""
    return "\n".join(
        (
            f'name: "{model}"',
            f'backend: "{_BACKEND}"',
            f"max_batch_size: {contract.max_batch_size}",
            f"model_transaction_policy {{ decoupled: {str(contract.decoupled).lower()} }}",
            _tensors("input", contract.inputs, optional=True),
            _tensors("output", contract.outputs, optional=False),
            "instance_group [ { count: 1, kind: KIND_CPU } ]",
            "",
        )
    )


def add_entry(name: str, artifact: Path, repository: Path, serving: ServingConfig | None = None) -> Path:
    """Write the generator's entry of the served model ``name`` and return its folder.

    Idempotent: a file that is already right is not touched. Without ``serving`` the knobs of an entry that is
    there are kept.

    Raises:
        StorageError: the repository cannot be written, or a model that is not ours has the name.
    """
    model = generator_model(check_name(name))
    folder = repository / model
    kept = _existing(folder)
    entry = ModelEntry(
        role="generator",
        artifact=_artifact_path(artifact, folder / "1", repository),
        serving=serving or (kept.serving if kept else ServingConfig()),
    )
    texts = {"1/model.json": entry.to_json(), "config.pbtxt": render_config(model, ROLES["generator"])}
    with storage_errors(repository):
        repository.mkdir(parents=True, exist_ok=True)
        _update(folder, texts) if folder.exists() else _create(folder, texts)
    return folder


def list_entries(repository: Path) -> list[Entry]:
    """Our entries, by name. A folder that is not ours is passed over."""
    entries = []
    for file in sorted(repository.glob("*/1/model.json")):
        record = ModelEntry.read(file)
        artifact = record.artifact_path(file)
        entries.append(Entry(file.parent.parent.name, record.role, artifact, (artifact / "artifact.json").is_file()))
    return entries


def remove_entry(name: str, repository: Path) -> Path:
    """Remove the generator's entry of the served model ``name``; the artifact stays.

    Raises:
        StorageError: there is no such entry, or it is not ours.
    """
    folder = repository / generator_model(check_name(name))
    if not folder.is_dir() or _existing(folder) is None:
        known = ", ".join(entry.model.removesuffix("-generator") for entry in list_entries(repository)) or "none"
        raise StorageError(f"model '{name}': no entry in '{repository}'; entries there: {known}.")
    with storage_errors(repository):
        aside = Path(tempfile.mkdtemp(prefix=f".{repository.name}-", dir=repository.resolve().parent))
        folder.rename(aside / folder.name)  # gone from Triton's sight in one step
        shutil.rmtree(aside)
    return folder


def _tensors(kind: str, rows: tuple[Tensor, ...], *, optional: bool) -> str:
    lines = []
    for row in rows:
        dims = ", ".join(map(str, row.dims))
        flag = ", optional: true" if optional and row.optional else ""
        lines.append(f'  {{ name: "{row.name}", data_type: {DTYPES[row.dtype]}, dims: [ {dims} ]{flag} }}')
    return f"{kind} [\n" + ",\n".join(lines) + "\n]"


def _artifact_path(artifact: Path, start: Path, repository: Path) -> str:
    """Relative where artifact and repository lie in one project folder, so that the folder can be moved."""
    target, project = artifact.resolve(), repository.resolve().parent
    if target.is_relative_to(project):
        return Path(os.path.relpath(target, project / repository.name / start.relative_to(repository))).as_posix()
    return str(target)


def _existing(folder: Path) -> ModelEntry | None:
    """The entry that stands there, if it is one of ours."""
    if not folder.exists():
        return None
    file = folder / "1" / "model.json"
    if not file.is_file():
        raise StorageError(f"folder '{folder}': it exists and is no entry of ours; remove it or choose another name.")
    try:
        return ModelEntry.read(file)
    except RecordError as error:
        raise StorageError(f"{error} Remove '{folder}' to write it anew.") from error


def _create(folder: Path, texts: dict[str, str]) -> None:
    """Assemble the entry beside the repository and rename it in, so that Triton never sees half of one."""
    repository = folder.parent
    scratch = Path(tempfile.mkdtemp(prefix=f".{repository.name}-", dir=repository.resolve().parent))
    try:
        for name, text in texts.items():
            file = scratch / folder.name / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        (scratch / folder.name).rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _update(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        file = folder / name
        if file.is_file() and file.read_text("utf-8") == text:
            continue
        scratch = file.with_name(f".{file.name}.{os.getpid()}")
        scratch.write_text(text, "utf-8")
        scratch.replace(file)
