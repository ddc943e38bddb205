"""What of the model repository is served, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from python_llm.artifact import Artifact
from python_llm.settings import ModelEntry
from python_llm.version_policy import read_policy
from triton_launcher.errors import LaunchRefused
from triton_launcher.nodes import missing_nodes
from triton_launcher.preflight.checks import KINDS, problems
from triton_launcher.preflight.plan_checks import PLAN, plan_problems
from triton_launcher.preflight.probe import probe
from triton_launcher.preflight.wishes import Wishes

__all__ = ["Entry", "check_entries", "response_cache_bytes", "select_entries"]

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


def response_cache_bytes(entries: Sequence[Entry]) -> int:
    """What the entries want of Triton's response cache, which they share; 0: none."""
    records = (ModelEntry.read(entry.model_json) for entry in entries if entry.model_json is not None)
    return sum(record.serving.scorer_cache_bytes for record in records if record.role == "scorer")


def check_entries(entries: Sequence[Entry]) -> None:
    """Open each artifact and hold it to the runtime: its builder's version, and on GPUs all that preflight knows.

    Raises:
        ArtifactError, RecordError: one artifact or entry is not sound.
        LaunchRefused: engines for GPUs cannot run here as asked; every problem is named.
    """
    opened = {path: Artifact.open(path) for entry in entries if (path := entry.artifact_path()) is not None}
    found = []
    for artifact in opened.values():
        if artifact.kind not in (*KINDS, PLAN):
            artifact.check_runtime()
    for entry in entries:
        found += _preflight(entry, opened)
    if found:
        raise LaunchRefused("nothing was started:" + "".join(f"\n  {problem}" for problem in found))


def _preflight(entry: Entry, opened: Mapping[Path, Artifact]) -> list[str]:
    """Problems of the entry that runs an engine: the generator's."""
    path = entry.artifact_path()
    if entry.model_json is None or path is None or opened[path].kind not in (*KINDS, PLAN):
        return []
    if opened[path].kind == PLAN:
        return [f"{entry.name}: {problem}" for problem in plan_problems(opened[path].manifest, probe(path))]
    record = ModelEntry.read(entry.model_json)
    if record.role != "generator":
        return []
    wishes = Wishes.of(record.serving)
    facts, manifest = probe(path, wishes.lora_folders), opened[path].manifest
    found = [missing_nodes(manifest, entry.name.removesuffix("-generator")), *problems(manifest, facts, wishes)]
    return [f"{entry.name}: {problem}" for problem in found if problem]


def _entry(folder: Path) -> Entry | None:
    """None for a folder that is no entry, or one that is not finished."""
    if not (folder / "config.pbtxt").is_file():
        return None
    named = read_policy((folder / "config.pbtxt").read_text("utf-8"))
    there = [int(path.name) for path in folder.iterdir() if path.is_dir() and path.name.isdigit()]
    versions = [folder / str(number) for number in named or sorted(there)[-1:]]
    if not versions or not all(version.is_dir() and any(version.iterdir()) for version in versions):
        return None
    model_json = versions[-1] / "model.json"
    return Entry(folder.name, model_json if model_json.is_file() else None)


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
