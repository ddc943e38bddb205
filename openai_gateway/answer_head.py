"""What every part of one answer begins with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AnswerHead"]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """``object`` is OpenAI's name for what it is."""

    id: str
    object: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))

    def fields(self) -> dict[str, Any]:
        return {"id": self.id, "object": self.object, "created": self.created, "model": self.model}
