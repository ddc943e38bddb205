"""Pages made from code say what the code says."""

from __future__ import annotations

import pytest

from generated_docs import DOCS, docs_module

PAGES = {name: render() for name, render in docs_module().PAGES.items()}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_what_the_code_makes(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name], "run: make docs"
