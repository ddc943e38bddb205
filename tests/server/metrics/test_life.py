"""Series come and go with their model: unload, load, a reload beside running streams, a backend that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from prometheus_text import scrape
from server_under_test import ServerUnderTest, running_server
from triton_llm_client import Client, GenerateParams

MODEL = "slow-generator"
ENDS = "triton_llm_requests_finished_total"
TOKENS = "triton_llm_output_tokens_total"
PROMPT = [7, 8, 9]


@pytest.fixture(scope="module")
def own_server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    """One whose models the tests may take away."""
    with running_server(repository, run_dir=tmp_path_factory.mktemp("run")) as running:
        yield running


def ask(server: ServerUnderTest, tokens: int) -> None:
    with Client(server.grpc_url, model="slow") as client:
        client.generate(PROMPT, GenerateParams(max_tokens=tokens))


def repository_call(server: ServerUnderTest, what: str) -> None:
    answer = httpx.post(f"{server.http_url}/v2/repository/models/{MODEL}/{what}", json={}, timeout=120)
    assert answer.status_code == 200, answer.text


def wait_for_tokens(server: ServerUnderTest, count: int) -> None:
    def told() -> bool:
        port = scrape(server.metrics_url)
        assert not port.repeated
        return port.value(TOKENS, model=MODEL) == count

    server.wait_until(told, f"{count} tokens on the port")


def test_an_unloaded_models_series_go_and_a_loaded_one_begins_at_zero(own_server: ServerUnderTest) -> None:
    ask(own_server, 3)
    wait_for_tokens(own_server, 3)
    repository_call(own_server, "unload")
    own_server.wait_until(lambda: not scrape(own_server.metrics_url).of(MODEL), "no series of the unloaded model")
    assert scrape(own_server.metrics_url).of("tiny-generator")
    repository_call(own_server, "load")
    own_server.wait_until(lambda: scrape(own_server.metrics_url).of(MODEL), "its series again")
    assert scrape(own_server.metrics_url).value(ENDS, model=MODEL, finish_reason="length") == 0
    ask(own_server, 2)
    wait_for_tokens(own_server, 2)


def test_a_reload_beside_running_streams_keeps_the_server_and_its_series(
    own_server: ServerUnderTest, repository: Path
) -> None:
    """Triton 2.50 dies where both copies hold the same series and one leaves them."""
    tritonserver = own_server.tritonserver()
    with Client(own_server.grpc_url, model="slow") as client:
        stream = client.stream(PROMPT, GenerateParams(max_tokens=300))  # longer than any reload
        next(stream)
        os.utime(repository / MODEL / "1" / "model.json")
        repository_call(own_server, "load")
        ask(own_server, 4)  # the new copy's
        assert scrape(own_server.metrics_url).value("triton_llm_requests_running", model=MODEL) == 1  # the old one's
        assert sum(len(chunk.output_ids) for chunk in stream) > 290
    wait_for_tokens(own_server, 4)
    ask(own_server, 2)
    wait_for_tokens(own_server, 6)
    assert own_server.tritonserver() == tritonserver


def test_a_dead_backends_values_go_with_the_restart(own_server: ServerUnderTest) -> None:
    ask(own_server, 2)
    for stub in own_server.stubs():
        os.kill(stub, signal.SIGKILL)
    own_server.wait_until(lambda: own_server.ready()[1].get("restarts") == 1 and own_server.is_ready(), "a restart")
    own_server.wait_until(lambda: scrape(own_server.metrics_url).of(MODEL), "its series again")
    assert scrape(own_server.metrics_url).value(TOKENS, model=MODEL) == 0
    ask(own_server, 2)
    wait_for_tokens(own_server, 2)
