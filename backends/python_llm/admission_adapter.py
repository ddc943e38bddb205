"""The LoRA adapter that a request chooses: by name or by number, among those that the served model has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from python_llm.bounds import short_text
from python_llm.engine import Capabilities
from python_llm.errors import InvalidRequest, Unsupported

__all__ = ["read_adapter"]

_LONGEST_NAME = 256  # characters


def read_adapter(values: Mapping[str, Any], capabilities: Capabilities) -> str:
    """The adapter's name; empty where none is asked for.

    Raises:
        Unsupported: this model has no adapters.
        InvalidRequest: it has others, or name and number are two of them.
    """
    name = short_text(values, "lora_name", _LONGEST_NAME)
    number = int(values.get("lora_task_id", 0))
    if not (name or number):
        return ""
    have = capabilities.adapters
    subject = f"lora_name '{name}'" if name else f"lora_task_id {number}"
    if not have:
        raise Unsupported(
            "not_supported",
            f"{subject}: no adapter is loaded; serve a checkpoint with the adapter merged in, or name adapters in "
            "lora_config where the engine takes them.",
        )
    if number > len(have) or (name and name not in have):
        known = ", ".join(f"{place} {each}" for place, each in enumerate(have, 1))
        raise InvalidRequest("unknown_adapter", f"{subject}: this model's adapters are {known}; send one of them.")
    numbered = have[number - 1] if number else name
    if name and name != numbered:
        raise InvalidRequest(
            "two_adapters", f"lora_name '{name}': lora_task_id {number} is '{numbered}'; send one of the two."
        )
    return numbered
