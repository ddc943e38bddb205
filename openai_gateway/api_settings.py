"""What can be set about the API itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ApiSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """``keep_alive_seconds``: a stream that has said nothing for so long gets a comment, so that nobody between
    gives it up. ``max_body_bytes``: longer bodies are refused. ``tool_calls``: model -> form of its calls of tools,
    where the model itself does not say it.
    """

    keep_alive_seconds: float = 10.0
    max_body_bytes: int = 16 * 2**20
    tool_calls: Mapping[str, str] = field(default_factory=dict)
