"""Real Tritons over the paged engine, whose launchers soon take silence for death."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.served import Served, served, tiny_artifact
from tests.soak.store_events import Storing, storing

SILENCE_SECONDS = 15  # a busy machine must not look dead; two tests wait for it by the clock
SILENCE = ("--stall-seconds", str(SILENCE_SECONDS), "--control-seconds", str(SILENCE_SECONDS))


@pytest.fixture(scope="package")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_artifact(tmp_path_factory.mktemp("artifact"))


@pytest.fixture(scope="package")
def victim(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("chaos"), artifact, extra=SILENCE) as running:
        yield running


@pytest.fixture(scope="module")
def storing_server(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storing]:
    """It has a disk store, on a small disk of its own where one can be mounted."""
    with storing(tmp_path_factory.mktemp("store"), artifact, extra=SILENCE) as running:
        yield running
