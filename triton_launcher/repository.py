"""What of the model repository is served, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from python_llm.artifact import Artifact
from python_llm.settings import ModelEntry
from triton_launcher.errors import LaunchRefused

__all__ = ["Entry", "check_entries", "select_entries"]

_ROLES = ("tokenizer", "generator", "detokenizer", "unary", "scorer")


@dataclass(frozen=True)
class Entry:
    """One folder of the model repository. ``model_json`` is None for an entry of another kind (an ensemble)."""

    name: str
    model_json: Path | None

    def artifact_path(self) -> Path | None:
        return None if self.model_json is None else ModelEntry.read(self.model_json).artifact_path(self.model_json)


def select_entries(repository: Path, models: Sequence[str] = ()) -> tuple[Entry, ...]:
    """The entries to load: those named (a served model's name stands for its roles too), else all complete ones.

    An entry is complete when it has a config.pbtxt, a version folder that is not empty, and its artifact's
    folder exists. Raises LaunchRefused when nothing is left, or a named one is absent or incomplete.
    """
    if not repository.is_dir():
        raise LaunchRefused(
            f"model repository '{repository}': no such folder; write an entry with 'triton-llm repo add', or choose "
            "another with --model-repository."
        )
    entries = {folder.name: entry for folder in sorted(repository.iterdir()) if (entry := _entry(folder))}
    if models:
        return tuple({entry.name: entry for name in models for entry in _named(name, entries, repository)}.values())
    complete = tuple(entry for entry in entries.values() if _has_artifact(entry))
    if not complete:
        raise LaunchRefused(_nothing_to_serve(repository, entries))
    return complete


def check_entries(entries: Sequence[Entry]) -> None:
    """Open each artifact and compare its builder's version with the runtime's; raises ArtifactError, RecordError."""
    for path in {path for entry in entries if (path := entry.artifact_path()) is not None}:
        Artifact.open(path).check_runtime()


def _entry(folder: Path) -> Entry | None:
    """None for a folder that is no entry, or one that is not finished."""
    if not (folder / "config.pbtxt").is_file():
        return None
    versions = sorted((path for path in folder.iterdir() if path.is_dir() and path.name.isdigit()), key=_number)
    if not versions or not any(versions[-1].iterdir()):
        return None
    model_json = versions[-1] / "model.json"
    return Entry(folder.name, model_json if model_json.is_file() else None)


def _number(path: Path) -> int:
    return int(path.name)


def _named(name: str, entries: dict[str, Entry], repository: Path) -> list[Entry]:
    found = [entries[each] for each in (name, *(f"{name}-{role}" for role in _ROLES)) if each in entries]
    if not found:
        known = ", ".join(entries) or "none"
        raise LaunchRefused(
            f"model '{name}': no complete entry of this name in '{repository}' (complete: {known}); write it with "
            "'triton-llm repo add'."
        )
    return found


def _has_artifact(entry: Entry) -> bool:
    path = entry.artifact_path()
    return path is None or path.is_dir()


def _nothing_to_serve(repository: Path, entries: dict[str, Entry]) -> str:
    for entry in entries.values():
        return (
            f"model repository '{repository}': entry '{entry.name}' wants the artifact '{entry.artifact_path()}', "
            "which does not exist; build it with 'make build-engine'."
        )
    return (
        f"model repository '{repository}': no complete entry (config.pbtxt and a version folder); write one with "
        "'triton-llm repo add'."
    )
