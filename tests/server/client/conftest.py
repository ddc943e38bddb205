"""One real Triton with an echo engine at 20 ms a token, for all the client's server tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from echo_artifact import make_echo_artifact
from python_llm.contract import DTYPES, GENERATOR, Tensor
from python_llm.settings import ModelEntry, ServingConfig
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint

STEP_SECONDS = 0.02


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """Serves ``smollm2-generator``: two requests run, two wait, more are refused with queue_full."""
    folder = tmp_path_factory.mktemp("client")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    artifact = make_echo_artifact(folder / "echo", checkpoint, script={"step_seconds": STEP_SECONDS})
    _write_entry(folder / "repository", artifact)
    with running_server(folder / "repository", run_dir=folder / "run") as running:
        yield running


@pytest.fixture(params=["grpc", "http"])
def url(request: pytest.FixtureRequest, server: ServerUnderTest) -> str:
    return server.grpc_url if request.param == "grpc" else server.http_url


def _write_entry(repository: Path, artifact: Path) -> None:
    version = repository / "smollm2-generator" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(_config(), "utf-8")
    serving = ServingConfig(max_running=2, max_queue_size=2)
    (version / "model.json").write_text(ModelEntry("generator", str(artifact), serving).to_json(), "utf-8")


def _config() -> str:
    head = 'backend: "python_llm"\nmax_batch_size: 1\nmodel_transaction_policy { decoupled: true }\n'
    inputs = "".join(f"input {{ {_row(row)} optional: {str(row.optional).lower()} }}\n" for row in GENERATOR.inputs)
    return head + inputs + "".join(f"output {{ {_row(row)} }}\n" for row in GENERATOR.outputs)


def _row(row: Tensor) -> str:
    return f'name: "{row.name}" data_type: {DTYPES[row.dtype]} dims: {list(row.dims)}'
