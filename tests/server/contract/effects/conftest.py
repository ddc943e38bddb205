"""One real Triton with the default model: each input of the contract is sent to it and its effect observed.

What must hold to the last bit, whatever the arithmetic of a batch, is asked of ``tiny`` (fp32), of the folder above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from build_engines.build import build
from build_engines.repository import add_entry
from build_engines.spec import EngineSpec
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from server_under_test import ServerUnderTest, running_server
from triton_llm_client import Client, Completion, GenerateParams, Prompt

PROJECT = Path(__file__).parents[4]
RUNNING = 4  # sequences at once: few, so that a test can fill them

Ask = Callable[..., Completion]


@pytest.fixture(scope="package")
def artifact() -> Path:
    """The checkout's own, built when it is not there."""
    return build(EngineSpec(model="smollm2"), PROJECT / "engines").path


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory, artifact: Path) -> Iterator[ServerUnderTest]:
    """Serves ``smollm2``, INT8."""
    folder = tmp_path_factory.mktemp("effects")
    add_entry("smollm2", artifact, folder / "repository", ServingConfig(max_running=RUNNING))
    with running_server(folder / "repository", run_dir=folder / "run") as server:
        yield server


@pytest.fixture(scope="package")
def client(served: ServerUnderTest) -> Iterator[Client]:
    with Client(served.grpc_url) as client:
        yield client


@pytest.fixture(scope="package")
def tokenizer(artifact: Path) -> Tokenizer:
    return Tokenizer.load(artifact)


@pytest.fixture(scope="package")
def ask(client: Client) -> Ask:
    """``ask(prompt, **params)`` of the default model."""

    def ask(prompt: Prompt, **params: Any) -> Completion:
        return client.generate(prompt, GenerateParams(**params))

    return ask


@pytest.fixture(scope="package")
def exact(server: ServerUnderTest) -> Iterator[Ask]:
    """``ask`` of the tiny model in fp32."""
    with Client(server.grpc_url, model="tiny") as client:

        def ask(prompt: Prompt, **params: Any) -> Completion:
            return client.generate(prompt, GenerateParams(**params))

        yield ask
