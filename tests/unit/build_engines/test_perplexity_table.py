from __future__ import annotations

from pathlib import Path

import pytest

from build_engines.errors import StorageError
from build_engines.perplexity import BEGIN, END, put_table, table
from build_engines.quality_bounds import Quality


def test_pytorch_comes_first_and_each_engine_is_put_against_it() -> None:
    exact = Quality(tokens=10, agreement=1.0, kl=0.0, perplexity=10.0, source_perplexity=10.0)
    lossy = Quality(tokens=10, agreement=0.5, kl=0.25, perplexity=12.0, source_perplexity=10.0)
    assert table([("one", lossy), ("two", exact)]).splitlines()[2:] == [
        "| PyTorch (transformers), fp32 | 10.000 | 1 | 1 | 0 |",
        "| one | 12.000 | 1.2000 | 0.500 | 0.250000 |",
        "| two | 10.000 | 1.0000 | 1.000 | 0.000000 |",
    ]


def test_the_table_replaces_what_is_between_the_marks_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "quality.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter é\n", "utf-8")
    put_table(page, "new")
    once = page.read_text("utf-8")
    assert once == f"before\n{BEGIN}\nnew\n{END}\nafter é\n"
    put_table(page, "new")
    assert page.read_text("utf-8") == once


@pytest.mark.parametrize("text", ["nothing\n", f"{BEGIN}\n", f"{END}\n", f"{END}\n{BEGIN}\n"])
def test_a_page_without_its_marks_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    page = tmp_path / "quality.md"
    page.write_text(text, "utf-8")
    with pytest.raises(StorageError, match="it lacks the marks"):
        put_table(page, "new")
    assert page.read_text("utf-8") == text
