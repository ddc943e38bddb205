"""Every promise of docs/reliability.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text("utf-8")
ROWS = [line for line in PAGE.partition("## Memory")[0].splitlines() if line.startswith("| ") and "event |" not in line]
_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)(?:::(?P<name>\w+))?`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_each_event_is_held_by_tests_that_exist(row: str) -> None:
    found = list(_TEST.finditer(row))
    assert found, "name a test"
    for test in found:
        file = ROOT / test["file"]
        assert file.is_file(), test["file"]
        functions = {node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}
        assert test["name"] is None or test["name"] in functions, test.group()


def test_the_page_has_its_events() -> None:
    assert len(ROWS) >= 15
