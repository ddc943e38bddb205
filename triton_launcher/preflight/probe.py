"""Finds out what is here. Nothing of an engine's library is imported: versions are its distributions' own words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from python_llm.gpus import visible_gpus
from triton_launcher.preflight.facts import RuntimeFacts

__all__ = ["probe"]

_PACKAGES = ("tensorrt_llm", "tensorrt", "xgrammar", "llguidance")


def probe(artifact: Path, lora_folders: Iterable[str] = ()) -> RuntimeFacts:
    """Of this node, and of what the artifact's and the adapters' own files say."""
    return RuntimeFacts(
        versions={package: found for package in _PACKAGES if (found := _version(package))},
        gpus=visible_gpus(),
        tokenizer_ids=_tokenizer_ids(artifact / "tokenizer.json"),
        lora_ranks={folder: rank for folder in lora_folders if (rank := _rank(artifact / folder)) is not None},
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _tokenizer_ids(file: Path) -> int | None:
    vocabulary = _read(file).get("model", {}).get("vocab")
    if isinstance(vocabulary, dict):
        return 1 + max((index for index in vocabulary.values() if isinstance(index, int)), default=-1)
    return len(vocabulary) if isinstance(vocabulary, list) else None


def _rank(adapter: Path) -> int | None:
    rank = _read(adapter / "adapter_config.json").get("r")
    return rank if isinstance(rank, int) else None


def _read(file: Path) -> dict[str, Any]:
    """The file's JSON object; empty where there is none: what loads it says what is wrong with it."""
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
