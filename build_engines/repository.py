"""The Triton model repository: entries are data only, written from the tensor table.

A served model NAME is five Triton models: NAME-tokenizer, NAME-generator and NAME-detokenizer, the ensemble NAME over
them, and NAME-unary, which asks the generator. A scorer is one Triton model, NAME itself. The artifact's kind says
which of the two it is served as.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from build_engines.entry_files import create_folder, update_files
from build_engines.entry_texts import CONFIG, MODEL_JSON, config_texts, model_jsons, models_of, path_in_entry
from build_engines.errors import StorageError, storage_errors
from build_engines.model_config import render_scorer
from build_engines.spec import check_folder_name, check_name
from python_llm.artifact import MANIFEST
from python_llm.contract import generator_model, role_model
from python_llm.records import RecordError
from python_llm.settings import ModelEntry, ServingConfig
from python_llm.version_policy import FIRST, read_policy, read_steps

__all__ = [
    "SCORED_KINDS",
    "Entry",
    "active_version",
    "add_entry",
    "add_scorer",
    "find_entry",
    "knobs_of",
    "list_entries",
    "live_versions",
    "remove_entry",
]

SCORED_KINDS = ("onnx", "tensorrt-plan")  # of the artifacts that are served as scorers
_SCORER_JSON = f"{FIRST}/{MODEL_JSON}"


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
    there are kept. The ensemble comes last, after its steps. Of several versions it is the active one's.

    Raises:
        StorageError: the repository cannot be written, or a model that is not ours has one of the names.
    """
    check_name(name)
    kept = _generator(name, repository)
    _check_ensemble(name, repository)
    serving = serving or (kept.serving if kept else ServingConfig())
    version = active_version(name, repository)
    configs = dict(config_texts(name, artifact, serving, version, live_versions(name, repository)))
    folders = {}
    with storage_errors(repository):
        repository.mkdir(parents=True, exist_ok=True)
        for model, files in model_jsons(name, artifact, repository, serving, version):
            folders[model] = repository / model
            texts = {f"{version}/{file}": text for file, text in files.items()} | {CONFIG: configs[model]}
            _write(folders[model], texts)
    return folders


def active_version(name: str, repository: Path) -> int:
    """The version whose steps the ensemble ``name`` has; 1 where there is none."""
    file = repository / name / CONFIG
    return read_steps(file.read_text("utf-8")) if file.is_file() else FIRST


def live_versions(name: str, repository: Path) -> tuple[int, ...]:
    """The versions that Triton is to have, the active one among them, rising."""
    file = repository / generator_model(name) / CONFIG
    active = active_version(name, repository)
    live = read_policy(file.read_text("utf-8")) if file.is_file() else ()
    return live if active in live else (active,)


def add_scorer(name: str, artifact: Path, repository: Path, serving: ServingConfig | None = None) -> Mapping[str, Path]:
    """As `add_entry`, for an artifact that is served as the scorer ``name``: one Triton model of that very name."""
    folder = repository / check_name(name)
    kept = _existing(folder, FIRST)
    if kept and kept.role != "scorer":
        raise StorageError(f"folder '{folder}': it plays the role {kept.role}; remove it or choose another name.")
    serving = serving or (kept.serving if kept else ServingConfig())
    with storage_errors(repository):
        repository.mkdir(parents=True, exist_ok=True)
        path = path_in_entry(artifact, folder / str(FIRST), repository)
        entry = ModelEntry(role="scorer", artifact=path, serving=serving)
        _write(folder, {_SCORER_JSON: entry.to_json(), CONFIG: render_scorer(name, serving)})
    return {name: folder}


def knobs_of(name: str, repository: Path) -> ServingConfig:
    """The knobs of the served model ``name``; where there is no such entry, the defaults.

    Raises:
        StorageError: a model that is not ours, or cannot be read, has the generator's name.
    """
    kept = _generator(check_name(name), repository) or _scorer(name, repository)
    return kept.serving if kept else ServingConfig()


def list_entries(repository: Path) -> list[Entry]:
    """Our served models, by name. Folders that are not ours are passed over.

    Raises:
        StorageError: the repository is no folder.
    """
    if repository.is_file():
        raise StorageError(f"repository '{repository}': a file; a model repository is a folder: name it.")
    entries = []
    for folder in sorted(repository.glob(role_model("*", "generator"))):
        name = folder.name.removesuffix(role_model("", "generator"))
        file = _generator_json(name, repository)
        if file.is_file():
            entries.append(_entry(name, ModelEntry.read(file).artifact_path(file), repository))
    for file in repository.glob(f"*/{_SCORER_JSON}"):
        if (entry := ModelEntry.read(file)).role == "scorer":
            entries.append(_scorer_entry(file.parents[1].name, entry.artifact_path(file)))
    return sorted(entries, key=lambda entry: entry.name)


def find_entry(name: str, repository: Path) -> Entry:
    """The served model ``name``.

    Raises:
        StorageError: there is no such entry, or it is not ours.
    """
    if scorer := _scorer(check_folder_name(name), repository):
        return _scorer_entry(name, scorer.artifact_path(repository / name / _SCORER_JSON))
    kept = _generator(name, repository)
    if kept is None:
        known = ", ".join(entry.name for entry in list_entries(repository)) or "none"
        raise StorageError(
            f"model '{name}': no entry in '{repository}'; entries there: {known}; name one of them, or another "
            "--repository."
        )
    _check_ensemble(name, repository)
    return _entry(name, kept.artifact_path(_generator_json(name, repository)), repository)


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
    if not (repository / name / _SCORER_JSON).is_file():
        return None
    found = _existing(repository / name, FIRST)
    return found if found and found.role == "scorer" else None


def _scorer_entry(name: str, artifact: Path) -> Entry:
    return Entry(name, (name,), artifact, (artifact / MANIFEST).is_file())


def _entry(name: str, artifact: Path, repository: Path) -> Entry:
    models = tuple(model for model in models_of(name) if (repository / model).is_dir())
    return Entry(name, models, artifact, (artifact / MANIFEST).is_file())


def _check_ensemble(name: str, repository: Path) -> None:
    """A folder of the served model's own name must be an ensemble of ours."""
    file = repository / name / "config.pbtxt"
    if file.parent.exists() and not (file.is_file() and generator_model(name) in file.read_text("utf-8", "replace")):
        raise StorageError(
            f"folder '{file.parent}': it exists and is no entry of ours; remove it or choose another name."
        )


def _generator(name: str, repository: Path) -> ModelEntry | None:
    """The generator of the active version, where there is one."""
    return _existing(repository / generator_model(name), active_version(name, repository))


def _generator_json(name: str, repository: Path) -> Path:
    return repository / generator_model(name) / str(active_version(name, repository)) / MODEL_JSON


def _existing(folder: Path, version: int) -> ModelEntry | None:
    """The entry that stands there, if it is one of ours."""
    if not folder.exists():
        return None
    file = folder / str(version) / MODEL_JSON
    if not file.is_file():
        raise StorageError(f"folder '{folder}': it exists and is no entry of ours; remove it or choose another name.")
    try:
        return ModelEntry.read(file)
    except RecordError as error:
        raise StorageError(f"{error} Remove '{folder}' to write it anew.") from error


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    update_files(folder, texts) if folder.exists() else create_folder(folder, texts, folder.parent)
