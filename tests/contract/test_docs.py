"""Pages made from code say what the code says."""

from __future__ import annotations

import dataclasses

import pytest

from docs.generate import DOCS
from docs.generate import PAGES as PAGES_OF
from python_llm.settings import ServingConfig

PAGES = {name: render() for name, render in PAGES_OF.items()}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_what_the_code_makes(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name], "run: make docs"


@pytest.mark.parametrize("knob", [field.name for field in dataclasses.fields(ServingConfig)])
def test_every_knob_stands_in_the_table_with_a_meaning(knob: str) -> None:
    (row,) = [line for line in PAGES["knobs.md"].splitlines() if line.startswith(f"| `{knob}` |")]
    assert all(cell.strip() for cell in row.strip("|").split("|"))
