"""What is known of the request that is answered now, for the log and the limits; tasks it starts see it too."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

__all__ = ["RECORD", "Allowance", "RequestRecord"]


class Allowance(Protocol):
    """The room that the caller's limits leave for tokens."""

    def reserve(self, tokens: int) -> object:
        """Count ``tokens`` in before they are computed; returns what `settle` takes. Raises OverLimit."""

    def settle(self, reserved: object, tokens: int) -> None:
        """So many it was in the end."""


@dataclass(slots=True)
class RequestRecord:
    """``request_id``: as the client knows it; ``named``: the client chose it. Tokens add up over all questions."""

    request_id: str
    named: bool = False
    key_id: str = ""
    tenant: str = ""
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    allowance: Allowance | None = None


RECORD: ContextVar[RequestRecord] = ContextVar("record")
