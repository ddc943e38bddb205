"""Every error that the backend's source can raise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import python_llm
from python_llm import errors

__all__ = ["error_reasons"]

_KINDS = {name: kind.code for name, kind in vars(errors).items() if hasattr(kind, "http_status")}
# A call's name -> where its reason stands, and the code: rules of combinations are data.
_CALLS = {**{name: (0, code) for name, code in _KINDS.items()}, "_Rule": (1, errors.InvalidRequest.code)}


def error_reasons() -> list[tuple[str, str, str]]:
    """(reason, code, text) of every error that the backend raises."""
    root = Path(python_llm.__file__).parent
    found: dict[tuple[str, str], str] = {}
    for file in sorted(root.rglob("*.py")):
        if file.name != "errors.py":
            for reason, code, text in _errors_of(ast.parse(file.read_text("utf-8"))):
                found.setdefault((reason, code), text)
    return [(reason, code, text) for (reason, code), text in sorted(found.items())]


def _errors_of(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            place, code = _CALLS[node.func.id]
            if len(node.args) == place + 2:
                reason, text = (_template(argument) for argument in node.args[place:])
                if reason:
                    yield reason.replace("{name}", "<input>").replace("{one}", "<input>"), code, text


def _template(node: ast.expr) -> str:
    """The text of a literal; what is filled in stands as its name in braces, or as an ellipsis."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_piece(part) for part in node.values)
    return ""


def _piece(node: ast.expr) -> str:
    if not isinstance(node, ast.FormattedValue):
        return _template(node)
    return f"{{{node.value.id}}}" if isinstance(node.value, ast.Name) else "\u2026"
