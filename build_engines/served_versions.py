"""The versions of one served model in a repository: which are there, which Triton is to have, which one answers.

The truth is in the entry's own files. The ensemble names the version of its steps: that one is active. The steps'
``version_policy`` names those that are live. ``versions.json`` beside the ensemble's config.pbtxt adds the one that was
active before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from build_engines.entry_files import create_folder, update_files
from build_engines.entry_texts import CONFIG, MODEL_JSON, config_texts, model_jsons, models_of
from build_engines.errors import StorageError, storage_errors
from build_engines.repository import active_version, find_entry, live_versions
from python_llm.contract import generator_model
from python_llm.records import RecordError, read_record
from python_llm.settings import ModelEntry, ServingConfig
from python_llm.version_policy import FIRST

__all__ = ["ServedVersions"]

_RECORD = "versions.json"


@dataclass(frozen=True)
class _Record:
    active: int
    previous: int | None = None


@dataclass(frozen=True)
class ServedVersions:
    """``numbers``: every version whose folders are there. Methods raise StorageError where files cannot be used."""

    name: str
    repository: Path
    numbers: tuple[int, ...]
    live: tuple[int, ...]
    active: int
    previous: int | None

    @staticmethod
    def read(name: str, repository: Path) -> ServedVersions:
        """Raises StorageError: there is no such entry, it is a scorer, or its files contradict each other."""
        if find_entry(name, repository).models == (name,):
            raise StorageError(f"model '{name}': a scorer; it has one version: serve the other under another name.")
        folders = (repository / generator_model(name)).iterdir()
        numbers = tuple(sorted(int(folder.name) for folder in folders if folder.name.isdigit()))
        active = active_version(name, repository)
        record = _read_record(repository / name / _RECORD) or _Record(active)
        if record.active != active:
            raise _edited(
                repository / name / CONFIG,
                f"its steps are of version {active}, {_RECORD} says {record.active}",
                f"name version {record.active} in it again, or remove {_RECORD}, which is what rollback goes by",
            )
        previous = record.previous if record.previous in numbers else None
        return ServedVersions(name, repository, numbers, live_versions(name, repository), active, previous)

    @property
    def models(self) -> tuple[str, ...]:
        """Steps first."""
        return models_of(self.name)

    def entry(self, version: int) -> ModelEntry:
        """The generator's entry of that version. Raises StorageError where there is none."""
        if version not in self.numbers:
            known = ", ".join(map(str, self.numbers))
            raise StorageError(
                f"model '{self.name}' version {version}: it is not there; versions there: {known}; write it with "
                f"'triton-llm repo add {self.name} --version {version} --artifact FOLDER'."
            )
        return ModelEntry.read(self._model_json(version))

    def artifact(self, version: int) -> Path:
        return self.entry(version).artifact_path(self._model_json(version))

    def check_unedited(self) -> None:
        """Hold every config.pbtxt, and the folders of live versions, to what would be written."""
        for model, text in self.configs(self.active, self.live):
            file = self.repository / model / CONFIG
            if not file.is_file() or file.read_text("utf-8") != text:
                raise _edited(
                    file,
                    "it is not what this version of triton-llm writes",
                    f"write it anew with 'triton-llm repo add {self.name}'",
                )
            for version in self.live:
                folder = self.repository / model / str(version)
                if not folder.is_dir() or (model != self.name and not (folder / MODEL_JSON).is_file()):
                    raise _edited(folder, "a version that is live lacks it", "put it back")

    def add(self, version: int, artifact: Path, serving: ServingConfig) -> None:
        """Write the folders of a version that is not live; what is served does not change.

        Raises:
            StorageError: it is live, or it would need another config.pbtxt, which all versions share.
        """
        if version < FIRST:
            raise StorageError(f"version {version}: it must be a whole number from {FIRST}.")
        if version in self.live:
            raise StorageError(
                f"model '{self.name}' version {version}: it is live; promote another first, or change it with "
                f"'triton-llm repo add {self.name}', without --version."
            )
        self._check_same_shape(version, artifact, serving)
        with storage_errors(self.repository):
            for model, files in model_jsons(self.name, artifact, self.repository, serving, version):
                folder = self.repository / model / str(version)
                if folder.is_dir():
                    update_files(folder, files)
                else:
                    create_folder(folder, files, self.repository)

    def configs(self, active: int, live: tuple[int, ...]) -> Iterator[tuple[str, str]]:
        """(Triton model, its config.pbtxt) where ``active`` answers and ``live`` are there; the ensemble last."""
        return config_texts(self.name, self.artifact(active), self.entry(active).serving, active, live)

    def write(self, model: str, text: str) -> None:
        """The config.pbtxt of one Triton model."""
        with storage_errors(self.repository):
            update_files(self.repository / model, {CONFIG: text})

    def record(self, active: int, previous: int | None) -> None:
        """Remember what was active before."""
        text = json.dumps(asdict(_Record(active, previous)), indent=2) + "\n"
        with storage_errors(self.repository):
            update_files(self.repository / self.name, {_RECORD: text})

    def _check_same_shape(self, version: int, artifact: Path, serving: ServingConfig) -> None:
        here = dict(self.configs(self.active, self.live))
        for model, text in config_texts(self.name, artifact, serving, self.active, self.live):
            if text != here[model]:
                ours, theirs = ({*each.splitlines()} for each in (text, here[model]))
                raise StorageError(
                    f"model '{self.name}' version {version}: it wants {_one_line(ours - theirs)} in the config.pbtxt "
                    f"of '{model}', version {self.active} has {_one_line(theirs - ours)}; versions of one model share "
                    "that file: set the knobs alike (--set max_sequence_len, tokenizer_instances, "
                    "detokenizer_instances), or serve it under another name."
                )

    def _model_json(self, version: int) -> Path:
        return self.repository / generator_model(self.name) / str(version) / MODEL_JSON


def _one_line(lines: set[str]) -> str:
    return "; ".join(sorted(lines)) or "nothing there"


def _read_record(file: Path) -> _Record | None:
    if not file.is_file():
        return None
    try:
        return read_record(_Record, json.loads(file.read_text("utf-8")), f"'{file}'")
    except (ValueError, RecordError) as error:
        raise _edited(file, str(error), "remove it, which is what rollback goes by") from error


def _edited(place: Path, what: str, remedy: str) -> StorageError:
    return StorageError(f"'{place}': {what}; the repository was edited by hand, or by an older version: {remedy}.")
