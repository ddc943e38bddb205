"""What a check found out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "State", "advice", "ok", "unknown", "wrong"]

State = Literal["ok", "advice", "wrong", "unknown"]


@dataclass(frozen=True)
class Finding:
    """``text`` names subject and values; ``next``: what to do, as a command where there is one.

    advice: it works, and could be better. unknown: it could not be looked at; the text says why.
    """

    area: str
    state: State
    text: str
    next: str = ""


def ok(area: str, text: str) -> Finding:
    return Finding(area, "ok", text)


def advice(area: str, text: str, next_step: str) -> Finding:
    return Finding(area, "advice", text, next_step)


def wrong(area: str, text: str, next_step: str) -> Finding:
    return Finding(area, "wrong", text, next_step)


def unknown(area: str, text: str, next_step: str = "") -> Finding:
    return Finding(area, "unknown", text, next_step)
