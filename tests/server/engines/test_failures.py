"""What happens when an engine fails, or is told to go: clean errors, a new start, and nothing cut at a drain."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import pytest

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from fake_tensorrt_llm import machine, make_tensorrt_artifact
from open_streams import OpenStreams, grpc_stream
from python_llm.errors import EngineFailure, ServeError
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server, start_server
from triton_launcher import processes
from triton_llm_client import AsyncClient, Completion, GenerateParams

ENGINES = ("echo", "paged", "tensorrt")
PROMPT = "The ferry left the small harbour"
STEP = {"step_seconds": 0.02}
SERVING = ServingConfig(max_running=16, delivery_share=1.0)


@pytest.fixture(scope="module")
def server(
    checkpoint: Path, paged_artifact: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerUnderTest]:
    """One that the tests may break. ``tensorrt`` has two ranks and starts slowly."""
    folder = tmp_path_factory.mktemp("failures")
    repository = folder / "repository"
    add_entry("echo", make_echo_artifact(folder / "echo", checkpoint, script=STEP), repository, SERVING)
    add_entry("paged", paged_artifact, repository, SERVING)
    slow = {**STEP, "start_seconds": 1.0, "echo": True}  # its streams do not end by chance
    artifact = make_tensorrt_artifact(folder / "tensorrt", checkpoint, tp=2, script=slow)
    add_entry("tensorrt", artifact, repository, SERVING)
    models = [f"{engine}-generator" for engine in ENGINES]
    with ExitStack() as running:
        with machine(folder / "machine", gpus=2):
            server = running.enter_context(running_server(repository, models=models, run_dir=folder / "run"))
        yield server


async def endless(server: ServerUnderTest, engine: str, meanwhile: Callable[[], None]) -> list[object]:
    """Ends of four streams, two a route, that run on while ``meanwhile`` is called."""
    params = GenerateParams(max_tokens=1900, ignore_eos=True)
    async with AsyncExitStack() as stack:
        routes = [AsyncClient(url, model=engine) for url in (server.grpc_url, server.http_url)]
        clients = [await stack.enter_async_context(client) for client in routes]
        begun = [asyncio.Event() for _ in range(4)]
        tasks = [
            asyncio.create_task(clients[n % 2].generate(PROMPT, params, on_chunk=partial(_note, event)))
            for n, event in enumerate(begun)
        ]
        for task, event in zip(tasks, begun, strict=True):
            task.add_done_callback(partial(_note, event))  # one that failed before its first text has begun as well
        for event in begun:
            await asyncio.wait_for(event.wait(), 120)
        await asyncio.to_thread(meanwhile)
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 240)


def _note(event: asyncio.Event, news: object) -> None:
    event.set()


def is_whole(end: object) -> bool:
    """Of a client that was so slow that the server was done before it died."""
    return isinstance(end, Completion) and len(end.output_ids) == 1900


def assert_generates(server: ServerUnderTest, engine: str) -> None:
    assert "".join(grpc_stream(server, f"{engine}-generator", PROMPT, 3))


def assert_back(server: ServerUnderTest, first: int) -> None:
    server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
    for engine in ENGINES:
        assert_generates(server, engine)


def ranks(server: ServerUnderTest) -> list[int]:
    """Process ids of the library's workers, by rank."""
    told = re.findall(r"\[rank (\d+)\] pid (\d+) ready", server.log_path.read_text("utf-8", "replace"))
    latest = {int(rank): int(pid) for rank, pid in told}
    return [latest[rank] for rank in sorted(latest)]


def test_ready_is_when_every_rank_is_up(server: ServerUnderTest) -> None:
    assert len(ranks(server)) == 2
    assert all(processes.is_alive(pid) for pid in ranks(server))
    assert_generates(server, "tensorrt")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_backend_ends_its_streams_and_comes_back(server: ServerUnderTest, engine: str) -> None:
    def kill() -> None:
        stubs = processes.stubs(server.marker).items()
        (pid,) = (pid for pid, stub in stubs if stub.model == f"{engine}-generator")
        os.kill(pid, signal.SIGKILL)

    first = server.tritonserver()
    ends = asyncio.run(endless(server, engine, kill))
    assert all(isinstance(end, ServeError) or is_whole(end) for end in ends), ends
    assert_back(server, first)


def test_a_dead_rank_fails_its_requests_with_its_last_lines_and_all_starts_anew(server: ServerUnderTest) -> None:
    first = server.tritonserver()
    ends = asyncio.run(endless(server, "tensorrt", lambda: os.kill(ranks(server)[1], signal.SIGKILL)))
    for end in ends:
        if is_whole(end):
            continue
        assert isinstance(end, EngineFailure), ends
        assert end.reason == "engine_failed"
        assert "rank 1 ended with code -9. Its last lines:" in end.text
    assert_back(server, first)
    assert "'tensorrt-generator' is stuck: its engine" in server.launcher_log_path.read_text("utf-8")


def test_a_drain_lets_every_engine_finish(server: ServerUnderTest) -> None:
    running = {engine: OpenStreams(server, f"{engine}-generator", 2, PROMPT, 200) for engine in ENGINES}
    for streams in running.values():
        streams.await_first_texts()
    assert server.stop() == 0
    for engine, streams in running.items():
        streams.await_ends()
        assert streams.errors == [None] * 4
        whole = {"".join(texts) for texts in streams.texts}
        assert len(whole) == 1 or engine == "paged"  # whose near-ties may fall either way


def test_a_rank_that_dies_at_the_start_ends_it_with_its_last_lines(checkpoint: Path, tmp_path: Path) -> None:
    artifact = make_tensorrt_artifact(tmp_path / "dying", checkpoint, tp=2, script={"rank_dies_at_start": True})
    add_entry("dying", artifact, tmp_path / "repository")
    with machine(tmp_path / "machine", gpus=2):
        server = start_server(tmp_path / "repository", models=["dying-generator"], run_dir=tmp_path / "run")
    assert server.process.wait(240) == 1
    told = server.launcher_log_path.read_text("utf-8")
    assert "rank 1 ended with code 9" in told
    assert "[rank 1] out of memory" in told
