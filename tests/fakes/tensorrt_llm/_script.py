"""What the fake is told to do: ``tensorrt_llm_fake.json`` in the model's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILE", "Script"]

FILE = "tensorrt_llm_fake.json"


@dataclass(frozen=True)
class Script:
    """Steps count from 1, ranks from 0; 0 and -1: never."""

    start_seconds: float = 0.0
    step_seconds: float = 0.0
    fail_id: int = -1  # a prompt with this token gets an error of its own behind its first token
    die_at: int = 0  # the step at which the executor dies
    rank_dies_at: int = 0  # the step at which the last rank's process is killed
    rank_dies_at_start: bool = False
    echo: bool = False  # tokens of the prompt in a circle, whatever the parameters say

    @staticmethod
    def of(folder: Path) -> Script:
        file = folder / FILE
        return Script(**json.loads(file.read_text("utf-8"))) if file.is_file() else Script()
