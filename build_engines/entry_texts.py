"""What stands in the files of a served model's entry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from build_engines.model_config import ROLES_OF_A_MODEL, render_ensemble, render_role
from build_engines.told_facts import told_facts
from python_llm.contract import role_model
from python_llm.settings import ModelEntry, Role, ServingConfig

__all__ = ["CONFIG", "KEEP", "MODEL_JSON", "config_texts", "model_jsons", "models_of", "path_in_entry"]

CONFIG = "config.pbtxt"
MODEL_JSON = "model.json"
KEEP = ".gitkeep"  # an ensemble's version folder is empty, which git would drop


def models_of(name: str) -> tuple[str, ...]:
    """Steps first: Triton loads an ensemble only over steps that are there."""
    return (*(role_model(name, role) for role in ROLES_OF_A_MODEL), name)


def config_texts(
    name: str, artifact: Path, serving: ServingConfig, version: int, live: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """(Triton model, its config.pbtxt), where ``version`` answers for NAME and Triton has the versions ``live``."""
    for role in ROLES_OF_A_MODEL:
        told = told_facts(artifact, serving) if role == "generator" else {}
        yield role_model(name, role), render_role(name, role, _instances(role, serving), told, live)
    yield name, render_ensemble(name, version)


def model_jsons(
    name: str, artifact: Path, repository: Path, serving: ServingConfig, version: int
) -> Iterator[tuple[str, dict[str, str]]]:
    """(Triton model, the files of its folder ``version``)."""
    for role in ROLES_OF_A_MODEL:
        model = role_model(name, role)
        path = path_in_entry(artifact, repository / model / str(version), repository)
        yield model, {MODEL_JSON: ModelEntry(role=role, artifact=path, serving=serving).to_json()}
    yield name, {KEEP: ""}


def path_in_entry(artifact: Path, start: Path, repository: Path) -> str:
    """Relative where artifact and repository lie in one project folder, so that the folder can be moved."""
    target, project = artifact.resolve(), repository.resolve().parent
    if target.is_relative_to(project):
        return Path(os.path.relpath(target, project / repository.name / start.relative_to(repository))).as_posix()
    return str(target)


def _instances(role: Role, serving: ServingConfig) -> int:
    return {"tokenizer": serving.tokenizer_instances, "detokenizer": serving.detokenizer_instances}.get(role, 1)
