"""Who can be measured: a table from name to what opens it. A library is imported only when its subject opens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from triton_llm_client.bench.load import Subject

__all__ = ["SUBJECTS", "Absent", "Setting", "open_subject"]


class Absent(Exception):
    """A subject cannot take part here; the text says why and how to get it. It is reported, never a loss."""


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


# name -> "module:opener"; an opener takes a Setting and returns a Subject, or raises Absent.
SUBJECTS: Mapping[str, str] = {
    "engine": "triton_llm_client.bench.subjects.engine:open_engine",
    "genai": "triton_llm_client.bench.subjects.genai:open_genai",
    "served": "triton_llm_client.bench.subjects.served:open_served",
}


def open_subject(name: str, setting: Setting) -> Subject:
    """Open a subject of the table.

    Raises:
        Absent: it cannot take part here.
        ServeError, CallerMistake: it should work and does not.
    """
    module, _, opener = SUBJECTS[name].partition(":")
    opening: Any = getattr(import_module(module), opener)
    subject: Subject = opening(setting)
    return subject
