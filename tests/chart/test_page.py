"""docs/helm.md names tests that there are."""

from __future__ import annotations

import re

import pytest

from tests.chart.render import CHART, VALUES
from tests.chart.tools import ROOT

PAGE = (ROOT / "docs" / "helm.md").read_text("utf-8")


@pytest.mark.parametrize("cited", sorted(set(re.findall(r"`((?:tests/\S+/)?test_\w+\.py(?:::\w+)?)`", PAGE))))
def test_a_cited_test_is_there(cited: str) -> None:
    file, _, name = cited.partition("::")
    path = ROOT / file if "/" in file else ROOT / "tests" / "chart" / file
    assert not name or f"def {name}(" in path.read_text("utf-8")
    assert path.is_file()


def test_every_values_file_stands_in_the_table() -> None:
    assert {file.name for file in VALUES} == set(re.findall(r"^\| `([\w-]+\.yaml)` \|", PAGE, re.MULTILINE))


def test_every_row_of_the_table_is_held_by_something_or_says_that_it_is_not_there() -> None:
    table = PAGE[PAGE.index("| feature |") :].splitlines()[2:]
    for row in (line.strip("|").split("|") for line in table if line.startswith("|")):
        feature, _, here, held = (cell.strip() for cell in row)
        assert held or here.startswith("- ") or here == "-" or "deploy/monitoring" in here, feature


def test_the_templates_that_it_names_are_there() -> None:
    for name in re.findall(r"`([\w-]+\.yaml)`", PAGE[PAGE.index("| feature |") :]):
        assert (CHART / "templates" / name).is_file()
