"""Roles a Triton model of ours may play; a new role is one file here and one row in ``load``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from python_llm.settings import ModelEntry

__all__ = ["Role", "load"]


class Role(Protocol):
    def execute(self, requests: Sequence[Any]) -> Any: ...

    def finalize(self) -> None: ...


_ROLES = {
    "tokenizer": "python_llm.roles.tokenizer:TokenizerRole",
    "generator": "python_llm.roles.generator:GeneratorRole",
    "detokenizer": "python_llm.roles.detokenizer:DetokenizerRole",
    "unary": "python_llm.roles.unary:UnaryRole",
    "scorer": "python_llm.roles.scorer:ScorerRole",
}


def load(model_json: Path) -> Role:
    """Read the model's entry and start its role."""
    entry = ModelEntry.read(model_json)
    module, _, name = _ROLES[entry.role].partition(":")
    role: Role = getattr(import_module(module), name)(entry, model_json)
    return role
