"""Calls of the library as data: printed as the program that makes them, checked against the API facts, or made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["Call", "Member", "made", "program", "symbols"]


@dataclass(frozen=True)
class Member:
    """One value of an enumeration."""

    symbol: str
    name: str


@dataclass(frozen=True)
class Call:
    """A class of the library and its keyword arguments."""

    symbol: str
    arguments: Mapping[str, Any]


def symbols(value: Any) -> Iterator[tuple[str, str]]:
    """(symbol, argument or member) of everything named in a value; a call without arguments gives (symbol, "")."""
    if isinstance(value, Member):
        yield value.symbol, value.name
    elif isinstance(value, Call):
        yield value.symbol, ""
        for name, argument in value.arguments.items():
            yield value.symbol, name
            yield from symbols(argument)


def program(call: Call, then: tuple[str, ...]) -> str:
    """The Python program that makes ``call`` and calls ``then`` on it (texts such as ``save('…')``)."""
    modules: dict[str, set[str]] = {}
    for symbol, _ in symbols(call):
        module, _, name = symbol.rpartition(".")
        modules.setdefault(module, set()).add(name)
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items())]
    body = [f"    llm = {_text(call, 1)}", *(f"    llm.{each}" for each in then)]
    return "\n".join([*lines, "", 'if __name__ == "__main__":  # worker processes import this file', *body])


def _text(value: Any, depth: int) -> str:
    if isinstance(value, Member):
        return f"{value.symbol.rpartition('.')[2]}.{value.name}"
    if not isinstance(value, Call):
        return repr(value)
    name, indent = value.symbol.rpartition(".")[2], "    " * (depth + 1)
    rows = [f"{indent}{key}={_text(argument, depth + 1)}," for key, argument in value.arguments.items()]
    return "\n".join([f"{name}(", *rows, f"{'    ' * depth})"]) if rows else f"{name}()"


def made(value: Any) -> Any:
    """The library's own object for a value. It imports the library."""
    if isinstance(value, Member):
        return getattr(_found(value.symbol), value.name)
    if isinstance(value, Call):
        return _found(value.symbol)(**{name: made(argument) for name, argument in value.arguments.items()})
    return value


def _found(symbol: str) -> Any:
    module, _, name = symbol.rpartition(".")
    return getattr(import_module(module), name)
