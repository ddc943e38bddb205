"""How files of a model repository are written: Triton never sees half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["create_folder", "update_files"]


def create_folder(folder: Path, texts: Mapping[str, str], repository: Path) -> None:
    """Assemble the folder beside the repository and rename it in. ``texts``: by path within the folder."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{repository.name}-", dir=repository.resolve().parent))
    try:
        for name, text in texts.items():
            file = scratch / folder.name / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        (scratch / folder.name).rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def update_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write those that are not right yet, each in one step."""
    for name, text in texts.items():
        file = folder / name
        if file.is_file() and file.read_text("utf-8") == text:
            continue
        scratch = file.with_name(f".{file.name}.{os.getpid()}")
        scratch.write_text(text, "utf-8")
        scratch.replace(file)
