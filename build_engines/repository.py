"""The Triton model repository: entries are data only, written from the tensor table.

A served model NAME is five Triton models: NAME-tokenizer, NAME-generator and NAME-detokenizer, the ensemble NAME over
them, and NAME-unary, which asks the generator. A scorer is one Triton model, NAME itself. The artifact's kind says
which of the two it is served as.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from build_engines.errors import StorageError, storage_errors
from build_engines.model_config import ROLES_OF_A_MODEL, render_ensemble, render_role, render_scorer
from build_engines.spec import check_folder_name, check_name
from build_engines.told_facts import told_facts
from python_llm.artifact import MANIFEST
from python_llm.contract import generator_model, role_model
from python_llm.records import RecordError
from python_llm.settings import ModelEntry, Role, ServingConfig

__all__ = ["SCORED_KINDS", "Entry", "add_entry", "add_scorer", "find_entry", "knobs_of", "list_entries", "remove_entry"]

SCORED_KINDS = ("onnx", "tensorrt-plan")  # of the artifacts that are served as scorers
_MODEL_JSON = "1/model.json"
_KEEP = "1/.gitkeep"  # an ensemble's version folder is empty, which git would drop


@dataclass(frozen=True)
class Entry:
    """One served model in a repository."""

    name: str
    models: tuple[str, ...]  # as Triton names them, steps before their ensemble
    artifact: Path
    present: bool  # whether the artifact is there


def add_entry(name: str, artifact: Path, repository: Path, serving: ServingConfig | None = None) -> Mapping[str, Path]:
    """Write the entries of the served model ``name``; return the folder of each of its Triton models.

    Idempotent: a file that is already right is not touched. Without ``serving`` the knobs of an entry that is
    there are kept. The ensemble comes last, after its steps.

    Raises:
        StorageError: the repository cannot be written, or a model that is not ours has one of the names.
    """
    check_name(name)
    kept = _existing(repository / generator_model(name))
    _check_ensemble(name, repository)
    serving = serving or (kept.serving if kept else ServingConfig())
    folders = {}
    with storage_errors(repository):
        repository.mkdir(parents=True, exist_ok=True)
        for model, texts in _texts(name, artifact, repository, serving):
            folders[model] = repository / model
            _update(folders[model], texts) if folders[model].exists() else _create(folders[model], texts)
    return folders


def add_scorer(name: str, artifact: Path, repository: Path, serving: ServingConfig | None = None) -> Mapping[str, Path]:
    """As `add_entry`, for an artifact that is served as the scorer ``name``: one Triton model of that very name."""
    folder = repository / check_name(name)
    kept = _existing(folder)
    if kept and kept.role != "scorer":
        raise StorageError(f"folder '{folder}': it plays the role {kept.role}; remove it or choose another name.")
    serving = serving or (kept.serving if kept else ServingConfig())
    with storage_errors(repository):
        repository.mkdir(parents=True, exist_ok=True)
        path = _artifact_path(artifact, folder / "1", repository)
        entry = ModelEntry(role="scorer", artifact=path, serving=serving)
        texts = {_MODEL_JSON: entry.to_json(), "config.pbtxt": render_scorer(name, serving)}
        _update(folder, texts) if folder.exists() else _create(folder, texts)
    return {name: folder}


def knobs_of(name: str, repository: Path) -> ServingConfig:
    """The knobs of the served model ``name``; where there is no such entry, the defaults.

    Raises:
        StorageError: a model that is not ours, or cannot be read, has the generator's name.
    """
    kept = _existing(repository / generator_model(check_name(name))) or _scorer(name, repository)
    return kept.serving if kept else ServingConfig()


def list_entries(repository: Path) -> list[Entry]:
    """Our served models, by name. Folders that are not ours are passed over.

    Raises:
        StorageError: the repository is no folder.
    """
    if repository.is_file():
        raise StorageError(f"repository '{repository}': a file; a model repository is a folder: name it.")
    entries = []
    for file in sorted(repository.glob(f"{role_model('*', 'generator')}/{_MODEL_JSON}")):
        name = file.parents[1].name.removesuffix(role_model("", "generator"))
        entries.append(_entry(name, ModelEntry.read(file).artifact_path(file), repository))
    for file in repository.glob(f"*/{_MODEL_JSON}"):
        if (entry := ModelEntry.read(file)).role == "scorer":
            entries.append(_scorer_entry(file.parents[1].name, entry.artifact_path(file)))
    return sorted(entries, key=lambda entry: entry.name)


def find_entry(name: str, repository: Path) -> Entry:
    """The served model ``name``.

    Raises:
        StorageError: there is no such entry, or it is not ours.
    """
    folder = repository / generator_model(check_folder_name(name))
    if scorer := _scorer(name, repository):
        return _scorer_entry(name, scorer.artifact_path(repository / name / _MODEL_JSON))
    kept = _existing(folder)
    if kept is None:
        known = ", ".join(entry.name for entry in list_entries(repository)) or "none"
        raise StorageError(
            f"model '{name}': no entry in '{repository}'; entries there: {known}; name one of them, or another "
            "--repository."
        )
    _check_ensemble(name, repository)
    return _entry(name, kept.artifact_path(folder / _MODEL_JSON), repository)


def remove_entry(name: str, repository: Path) -> tuple[Path, ...]:
    """Remove the entries of the served model ``name``, the ensemble first; the artifact stays.

    Raises:
        StorageError: there is no such entry, or it is not ours.
    """
    folders = [repository / model for model in reversed(find_entry(name, repository).models)]
    with storage_errors(repository):
        aside = Path(tempfile.mkdtemp(prefix=f".{repository.name}-", dir=repository.resolve().parent))
        for folder in folders:
            folder.rename(aside / folder.name)  # gone from Triton's sight in one step
        shutil.rmtree(aside)
    return tuple(folders)


def _scorer(name: str, repository: Path) -> ModelEntry | None:
    """The entry of the scorer ``name``, where there is one."""
    if not (repository / name / _MODEL_JSON).is_file():
        return None
    found = _existing(repository / name)
    return found if found and found.role == "scorer" else None


def _scorer_entry(name: str, artifact: Path) -> Entry:
    return Entry(name, (name,), artifact, (artifact / MANIFEST).is_file())


def _entry(name: str, artifact: Path, repository: Path) -> Entry:
    models = tuple(model for model in _models(name) if (repository / model).is_dir())
    return Entry(name, models, artifact, (artifact / MANIFEST).is_file())


def _models(name: str) -> tuple[str, ...]:
    """Steps first: Triton loads an ensemble only over steps that are there."""
    return (*(role_model(name, role) for role in ROLES_OF_A_MODEL), name)


def _texts(name: str, artifact: Path, repository: Path, serving: ServingConfig) -> Iterator[tuple[str, dict[str, str]]]:
    for role in ROLES_OF_A_MODEL:
        model = role_model(name, role)
        path = _artifact_path(artifact, repository / model / "1", repository)
        entry = ModelEntry(role=role, artifact=path, serving=serving)
        told = told_facts(artifact, serving) if role == "generator" else {}
        config = render_role(name, role, _instances(role, serving), told)
        yield model, {_MODEL_JSON: entry.to_json(), "config.pbtxt": config}
    yield name, {_KEEP: "", "config.pbtxt": render_ensemble(name)}


def _instances(role: Role, serving: ServingConfig) -> int:
    return {"tokenizer": serving.tokenizer_instances, "detokenizer": serving.detokenizer_instances}.get(role, 1)


def _check_ensemble(name: str, repository: Path) -> None:
    """A folder of the served model's own name must be an ensemble of ours."""
    file = repository / name / "config.pbtxt"
    if file.parent.exists() and not (file.is_file() and generator_model(name) in file.read_text("utf-8", "replace")):
        raise StorageError(
            f"folder '{file.parent}': it exists and is no entry of ours; remove it or choose another name."
        )


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
    file = folder / _MODEL_JSON
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
