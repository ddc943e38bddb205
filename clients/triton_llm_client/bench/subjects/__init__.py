"""Who can be measured: a table from name to what opens it. A library is imported only when its subject opens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from triton_llm_client.bench.isolated import Absent, IsolatedSubject
from triton_llm_client.bench.load import Subject
from triton_llm_client.bench.words import plain_words

__all__ = ["DEFAULT_SUBJECTS", "OF_A_SERVER", "PEERS", "SUBJECTS", "Absent", "Row", "Setting"]

_ENGINES = "triton_llm_client.bench.subjects"


@dataclass(frozen=True)
class Setting:
    """What is measured: the artifact, and where a server is that serves it as ``model``.

    ``url``: gRPC; ``http_url``: Triton's HTTP; ``gateway_url``: the gateway's ``/v1``; ``openai_url``: the ``/v1`` of
    anything that speaks OpenAI's API, with ``openai_model``. None: there is none, or, of the first three, the bench
    starts a server of its own. ``folder``: where that one keeps its logs. ``gguf``: the file that the artifact was
    built from, where peers can read it.
    """

    artifact: Path
    model: str
    url: str | None = None
    http_url: str | None = None
    gateway_url: str | None = None
    metrics_url: str | None = None
    openai_url: str | None = None
    openai_model: str = ""
    folder: Path | None = None
    gguf: Path | None = None

    def vocabulary(self) -> int:
        """Token ids to draw prompts from; a cautious guess where only a URL is known."""
        try:
            return int(self.manifest()["model"]["vocab_size"])
        except (OSError, ValueError, KeyError):
            return 32_000

    def words(self) -> int | tuple[int, ...]:
        """Ids of whole words, whose prompts are the same tokens as text; else how many ids there are."""
        return _words(self.artifact / "tokenizer.json") or self.vocabulary()

    def weights(self) -> str:
        """``int8``, ``int4``, …, as the artifact's record names them; "" where only a URL is known."""
        try:
            return str(self.manifest()["quantisation"]["weights"])
        except (OSError, ValueError, KeyError):
            return ""

    def manifest(self) -> dict[str, Any]:
        """The artifact's record. Raises OSError or ValueError where there is none."""
        read: dict[str, Any] = json.loads((self.artifact / "artifact.json").read_text("utf-8"))
        return read


@dataclass(frozen=True)
class Row:
    """``opener``: "module:function", takes a Setting, returns a Subject or raises Absent.

    ``of_server``: it asks the server that serves the artifact, and shares it with the others that do.
    ``peer``: it is not ours; one that fails leaves the others to go on.
    """

    opener: str
    isolated: bool  # in a process of its own
    of_server: bool = False
    peer: bool = False

    def open(self, setting: Setting, run_seconds: float | None = None) -> Subject:
        """Raises Absent where it cannot take part; ServeError or CallerMistake where it should and does not.

        ``run_seconds``: what a load may take in a process of its own.
        """
        if self.isolated:
            return IsolatedSubject(_open, self.opener, setting, run_seconds=run_seconds)
        return _open(self.opener, setting)


SUBJECTS: Mapping[str, Row] = {
    "engine": Row(f"{_ENGINES}.engine:open_engine", isolated=True),
    "genai": Row(f"{_ENGINES}.genai:open_genai", isolated=True, peer=True),
    "served": Row(f"{_ENGINES}.served:open_served", isolated=False, of_server=True),
    "ensemble": Row(f"{_ENGINES}.served:open_ensemble", isolated=False, of_server=True),
    "http": Row(f"{_ENGINES}.served:open_http", isolated=False, of_server=True),
    "unary": Row(f"{_ENGINES}.served:open_unary", isolated=False, of_server=True),
    "gateway": Row(f"{_ENGINES}.openai:open_gateway", isolated=False, of_server=True),
    "openai": Row(f"{_ENGINES}.openai:open_openai", isolated=False),
    "llamacpp": Row(f"{_ENGINES}.llamacpp:open_llamacpp", isolated=True, peer=True),
    "transformers": Row(f"{_ENGINES}.transformers:open_generate", isolated=True, peer=True),
    "transformers-batching": Row(f"{_ENGINES}.transformers:open_batching", isolated=True, peer=True),
}
OF_A_SERVER = frozenset(name for name, row in SUBJECTS.items() if row.of_server)
PEERS = frozenset(name for name, row in SUBJECTS.items() if row.peer)
DEFAULT_SUBJECTS = ("engine", "genai", "served")


@lru_cache
def _words(file: Path) -> tuple[int, ...]:
    return plain_words(file)


def _open(opener: str, setting: Setting) -> Subject:
    module, _, name = opener.partition(":")
    opening: Any = getattr(import_module(module), name)
    subject: Subject = opening(setting)
    return subject
