"""The fixtures' models by name: config.json files made by hand from public facts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from build_engines.plan.model_numbers import ModelNumbers, read_numbers

__all__ = ["CONFIGS", "PARAMETERS", "config_of", "model_of"]

CONFIGS = Path(__file__).parents[1] / "golden"
# As the models' own pages state them; test_model_numbers derives each from its config.json, twice.
PARAMETERS: Mapping[str, int] = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-7b": 7_615_616_512,
    "gpt-neox-20b": 20_554_567_680,
}


def config_of(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((CONFIGS / name / "config.json").read_text("utf-8"))
    return config


def model_of(name: str) -> ModelNumbers:
    return read_numbers(config_of(name), name)
