"""docs/promises.md: each of the 29 complaints is held by tests that exist, or says plainly what it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"\| (\d+) \|.*\| ([^|]+) \|")
_ID = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_PLAIN = ("refused by name", "not verified: no GPU")
ROWS = [
    match.groups()
    for match in map(_ROW.fullmatch, (ROOT / "docs/promises.md").read_text("utf-8").splitlines())
    if match
]


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_all_of_them_are_there() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 30))


@pytest.mark.parametrize(("number", "held_by"), ROWS)
def test_the_tests_exist(number: str, held_by: str) -> None:
    named = _ID.findall(held_by)
    assert named or any(words in held_by for words in _PLAIN)
    rest = _ID.sub("", held_by)
    for words in _PLAIN:
        rest = rest.replace(words, "")
    assert not rest.strip(", "), f"row {number}: {rest}"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in functions(ROOT / path), f"{path} has no {name}"
