"""Pieces of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["bullets", "names", "table"]


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """The first column is a name."""
    told = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    told += [f"| `{name}` | {' | '.join(cell.replace('|', chr(92) + '|') for cell in rest)} |" for name, *rest in lines]
    return "\n".join(told)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "."
