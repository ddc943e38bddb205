"""The JSON files of a checkpoint's folder, read one way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError

__all__ = ["read_object"]


def read_object(file: Path) -> dict[str, Any]:
    """The file's JSON object; empty where there is no such file.

    Raises:
        CheckpointError: it is no JSON, or no object.
    """
    if not file.is_file():
        return {}
    try:
        record = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"file '{file}': unreadable ({error}); fetch the checkpoint again.") from error
    if not isinstance(record, dict):
        raise CheckpointError(f"file '{file}': it must be a JSON object; fetch the checkpoint again.")
    return record
