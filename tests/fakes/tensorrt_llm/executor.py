"""What a request may carry beside its tokens, and the error of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorrt_llm._shape import make

__all__ = ["LoRARequest", "RequestError"]

_Fields: Any = make("LoRARequest")


class LoRARequest(_Fields):  # type: ignore[misc]
    """``lora_path`` must exist."""

    def __post_init__(self) -> None:
        if not Path(self.lora_path).exists():
            raise ValueError(f"lora_path ({self.lora_path}) does not exist.")


class RequestError(RuntimeError):
    """One request failed; the executor goes on."""
