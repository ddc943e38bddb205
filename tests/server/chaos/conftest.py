"""One real Triton over the paged engine, whose launcher soon takes silence for death."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.soak.served import Served, served, tiny_artifact

SILENCE_SECONDS = 15  # a busy machine must not look dead; two tests wait for it by the clock


@pytest.fixture(scope="package")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("chaos")
    silence = ["--stall-seconds", str(SILENCE_SECONDS), "--control-seconds", str(SILENCE_SECONDS)]
    with served(folder, tiny_artifact(folder), extra=silence) as running:
        yield running
