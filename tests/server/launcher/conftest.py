from __future__ import annotations

from pathlib import Path

import pytest

from fake_llm_repository import write_artifact, write_entry


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A model repository with one entry, ``fake-generator``."""
    write_entry(tmp_path / "repository", "fake-generator", write_artifact(tmp_path / "engines/fake"))
    return tmp_path / "repository"
