"""Marks each test by the ring it lives in; hypothesis searches the same way in all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_TESTS = Path(__file__).parent

# No deadlines: other processes share the machine. HYPOTHESIS_PROFILE=search looks further, and elsewhere each time.
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("search", deadline=None, max_examples=1000, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        ring = item.path.relative_to(_TESTS).parts[0]
        item.add_marker(getattr(pytest.mark, ring))
