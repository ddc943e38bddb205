"""Marks each test by the ring it lives in."""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        ring = item.path.relative_to(_TESTS).parts[0]
        item.add_marker(getattr(pytest.mark, ring))
