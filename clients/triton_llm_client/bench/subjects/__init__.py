"""Who can be measured: a table from name to what opens it. A library is imported only when its subject opens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from triton_llm_client.bench.isolated import Absent, IsolatedSubject
from triton_llm_client.bench.load import Subject

__all__ = ["SUBJECTS", "Absent", "Row", "Setting"]


@dataclass(frozen=True)
class Setting:
    """What is measured: the artifact, and the server's ``url`` (None: the bench starts one of its own)."""

    artifact: Path
    model: str
    url: str | None = None

    def vocabulary(self) -> int:
        """Token ids to draw prompts from; a cautious guess where only a URL is known."""
        try:
            manifest = json.loads((self.artifact / "artifact.json").read_text("utf-8"))
            return int(manifest["model"]["vocab_size"])
        except (OSError, ValueError, KeyError):
            return 32_000


@dataclass(frozen=True)
class Row:
    """``opener``: "module:function", takes a Setting, returns a Subject or raises Absent."""

    opener: str
    isolated: bool  # in a process of its own

    def open(self, setting: Setting) -> Subject:
        """Raises Absent where it cannot take part; ServeError or CallerMistake where it should and does not."""
        return IsolatedSubject(_open, self.opener, setting) if self.isolated else _open(self.opener, setting)


SUBJECTS: Mapping[str, Row] = {
    "engine": Row("triton_llm_client.bench.subjects.engine:open_engine", isolated=True),
    "genai": Row("triton_llm_client.bench.subjects.genai:open_genai", isolated=True),
    "served": Row("triton_llm_client.bench.subjects.served:open_served", isolated=False),
}


def _open(opener: str, setting: Setting) -> Subject:
    module, _, name = opener.partition(":")
    opening: Any = getattr(import_module(module), name)
    subject: Subject = opening(setting)
    return subject
