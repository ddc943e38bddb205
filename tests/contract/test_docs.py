"""Pages made from code say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def _pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: render() for name, render in module.PAGES.items()}


@pytest.mark.parametrize("name", sorted(_pages()))
def test_the_page_is_what_the_code_makes(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == _pages()[name], "run: make docs"
