"""The engine over the fake library, in the shape of each version and of both kinds of artifact."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fake_tensorrt_llm import NEW, OLD, PINNED, make_tensorrt_artifact, version_in_use
from python_llm import engine as engines
from python_llm.engine import Engine
from python_llm.settings import ServingConfig

CONTEXT = 256
VOCABULARY = 300
END_IDS = (7, 9)

Open = Callable[..., AbstractContextManager[Engine]]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files: the fake reads no weights, and the engine no tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint")
    config = {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(END_IDS)}), "utf-8")
    return folder


@pytest.fixture(params=[OLD, PINNED, NEW])
def version(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Each version's shape in turn."""
    with version_in_use(request.param, tmp_path / "site"):
        yield request.param


@pytest.fixture
def pinned(tmp_path: Path) -> Iterator[str]:
    """The pinned version's shape alone."""
    with version_in_use(PINNED, tmp_path / "site"):
        yield PINNED


@pytest.fixture(params=["tensorrt_llm-engine", "tensorrt_llm-checkpoint"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_engine(tmp_path: Path, checkpoint: Path) -> Open:
    """Opens an engine over a new artifact: ``kind``, ``serving``, and what make_tensorrt_artifact takes."""

    @contextmanager
    def opened(kind: str, serving: ServingConfig | None = None, **artifact: Any) -> Iterator[Engine]:
        folder = make_tensorrt_artifact(tmp_path / "artifact", checkpoint, kind=kind, **artifact)
        engine = engines.load(folder, serving)
        try:
            yield engine
        finally:
            engine.close()
        assert engine.stats().running == engine.stats().waiting == 0

    return opened
