"""A model's config.json, wherever it is: a folder, the file itself, or a hub id; no weights are needed or fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_engines import hub
from build_engines.checkpoint import HUB_ID, read_config
from build_engines.errors import CheckpointError

__all__ = ["find_config"]

_FILES = ("config.json", "generation_config.json", "hf_quant_config.json")


def find_config(model: str, revision: str = "", *, offline: bool = False) -> tuple[Path, dict[str, Any]]:
    """The folder of the model's config.json and its content.

    Raises:
        CheckpointError: there is none, or it cannot be fetched.
    """
    path = Path(model).expanduser()
    if path.is_file():
        path = path.parent
    elif not path.is_dir():
        if not HUB_ID.fullmatch(model):
            raise CheckpointError(
                f"model '{model}': no such folder or file; give a folder with a config.json, the file, or a hub id "
                "'owner/model'."
            )
        path = hub.fetch(model, revision, offline=offline, patterns=_FILES)
    return path, read_config(path)
