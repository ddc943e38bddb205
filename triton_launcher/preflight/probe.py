"""Finds out what is here. Nothing of an engine's library is imported: versions are its distributions' own words."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from triton_launcher.preflight.facts import Gpu, RuntimeFacts

__all__ = ["probe"]

_PACKAGES = ("tensorrt_llm", "tensorrt", "xgrammar", "llguidance")
_QUERY = ("--query-gpu=name,compute_cap,memory.total,memory.free", "--format=csv,noheader,nounits")
_SECONDS = 60


def probe(artifact: Path, lora_folders: Iterable[str] = ()) -> RuntimeFacts:
    """Of this node, and of what the artifact's and the adapters' own files say."""
    return RuntimeFacts(
        versions={package: found for package in _PACKAGES if (found := _version(package))},
        gpus=_gpus(),
        tokenizer_ids=_tokenizer_ids(artifact / "tokenizer.json"),
        lora_ranks={folder: rank for folder in lora_folders if (rank := _rank(artifact / folder)) is not None},
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _gpus() -> tuple[Gpu, ...]:
    """The visible ones; none where there is no driver or it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run([tool, *_QUERY], capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    return tuple(Gpu(row[0], row[1], int(row[2]) << 20, int(row[3]) << 20) for row in rows if len(row) == 4)


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
