"""One real Triton over the paged engine and a tiny checkpoint, for everything that is thrown at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.soak.served import Served, served, tiny_artifact


@pytest.fixture(scope="package")
def under_load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("load")
    with served(folder, tiny_artifact(folder)) as running:
        yield running
