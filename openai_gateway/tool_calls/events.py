"""What a parser finds in an answer's text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Arguments", "Called", "Event", "Parser", "Said"]


@dataclass(frozen=True, slots=True)
class Said:
    """Text that is no call."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """Call ``number`` of the answer begins; its arguments follow."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the arguments' JSON text of call ``number``."""

    number: int
    text: str


Event = Said | Called | Arguments


class Parser(Protocol):
    """Reads one answer as it comes. The events do not depend on how the text is cut into pieces, but for their number;
    what looks like a call and is none is said as text."""

    def push(self, text: str) -> Sequence[Event]: ...

    def finish(self) -> Sequence[Event]:
        """The answer has ended: what was held back."""
