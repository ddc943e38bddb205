"""Two architectures from one repository: one is added, used and removed while streams run on the other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.model_config import ROLES_OF_A_MODEL
from build_engines.spec import EngineSpec
from open_streams import OpenStreams, grpc_stream
from python_llm.errors import NotFound
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint
from triton_llm.cli import main
from triton_llm_client import AsyncClient, Client, GenerateParams

ARCHITECTURES = {"a": "llama", "b": "qwen2"}
KNOBS = ("kv_cache_precision=f32", "inference_precision=f32", "kv_cache_bytes=67108864", "threads=1")
MODELS_OF_A, MODELS_OF_B = ({x, *(f"{x}-{role}" for role in ROLES_OF_A_MODEL)} for x in "ab")
PROMPT = "The tide went out"
LONG = GenerateParams(max_tokens=1800, ignore_eos=True)
SHORT = GenerateParams(max_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    for seed, (name, architecture) in enumerate(ARCHITECTURES.items()):
        checkpoint = make_tiny_checkpoint(folder / name, architecture=architecture, seed=seed)
        build(EngineSpec(model=str(checkpoint), name=name, quant="none", check_quality=False), folder / "engines")
    return folder / "engines"


@pytest.fixture
def server(engines: Path, tmp_path: Path) -> Iterator[ServerUnderTest]:
    """Serves ``a``."""
    assert repo(tmp_path, "add", "a", *added(engines)) == 0
    with running_server(tmp_path / "repository", run_dir=tmp_path / "run") as running:
        yield running


def repo(tmp_path: Path, action: str, *arguments: str) -> int:
    return main(["repo", action, *arguments, "--repository", str(tmp_path / "repository")])


def added(engines: Path) -> list[str]:
    return ["--engines", str(engines), *(word for knob in KNOBS for word in ("--set", knob))]


class Traffic:
    """Streams on one generator that follow each other in four lanes until the block ends; every text is kept."""

    def __init__(self, server: ServerUnderTest, model: str) -> None:
        self.texts: dict[str, list[str]] = {f"{PROMPT} on day {lane}": [] for lane in range(4)}
        self.reasons: set[str | None] = set()
        self._server, self._model = server, model
        self._over = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncClient(self._server.grpc_url, model=self._model) as client:
            started = asyncio.Event()
            lanes = [asyncio.create_task(self._lane(client, prompt, started)) for prompt in self.texts]
            await started.wait()
            try:
                yield
            finally:
                self._over = True
                await asyncio.gather(*lanes)

    async def _lane(self, client: AsyncClient, prompt: str, started: asyncio.Event) -> None:
        while not self._over:
            answer = await client.generate(prompt, LONG, on_chunk=lambda _: started.set())
            self.texts[prompt].append(answer.text)
            self.reasons.add(answer.finish_reason)


def test_adding_and_removing_b_under_traffic_drops_nothing_of_a(
    server: ServerUnderTest, engines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = server.tritonserver()
    with Client(server.grpc_url, model="a") as client:
        alone = {f"{PROMPT} on day {lane}": client.generate(f"{PROMPT} on day {lane}", LONG).text for lane in range(4)}
    traffic, answers = Traffic(server, "a"), {}
    readiness = []

    async def scene() -> None:
        async with traffic.running():
            for round_ in range(2):
                url = ("--url", server.http_url)
                assert await asyncio.to_thread(repo, tmp_path, "add", "b", *added(engines), *url) == 0
                async with AsyncClient(server.grpc_url, model="b") as generator:
                    answers[round_] = (await generator.generate(PROMPT, SHORT)).text
                async with AsyncClient(server.grpc_url, model="b", ensemble=True) as ensemble:
                    assert (await ensemble.generate(PROMPT, SHORT)).text == answers[round_]
                streams = [OpenStreams(server, model, 2, PROMPT, 1500) for model in ("b-generator", "b")]
                await asyncio.gather(*(asyncio.to_thread(each.await_first_texts) for each in streams))
                assert await asyncio.to_thread(repo, tmp_path, "remove", "b", *url) == 0
                await asyncio.gather(*(asyncio.to_thread(each.await_ends) for each in streams))
                assert [error for each in streams for error in each.errors] == [None] * 8
                assert len({"".join(texts) for each in streams for texts in each.texts}) == 1  # and every one whole
                readiness.append(await asyncio.to_thread(server.ready))

    asyncio.run(scene())
    assert {prompt: set(texts) for prompt, texts in traffic.texts.items()} == {p: {t} for p, t in alone.items()}
    assert traffic.reasons == {"length"}
    assert answers[0] == answers[1]
    assert [(status, body["phase"], body["restarts"]) for status, body in readiness] == [(200, "ready", 0)] * 2
    assert server.tritonserver() == first
    with Client(server.grpc_url, model="b") as client, pytest.raises(NotFound):
        client.generate(PROMPT, SHORT)
    capsys.readouterr()
    assert repo(tmp_path, "list", "--json", "--url", server.http_url) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == ["a"]


def test_a_restart_brings_back_what_was_loaded(server: ServerUnderTest, engines: Path, tmp_path: Path) -> None:
    url = ("--url", server.http_url)
    assert repo(tmp_path, "add", "b", *added(engines), *url) == 0
    server.wait_until(lambda: ready_models(server) > MODELS_OF_B, "the launcher to have seen b")
    texts = {model: "".join(grpc_stream(server, f"{model}-generator", PROMPT, 24)) for model in ARCHITECTURES}
    assert texts["a"] != texts["b"]
    restart(server)
    assert ready_models(server) > MODELS_OF_B
    assert {m: "".join(grpc_stream(server, f"{m}-generator", PROMPT, 24)) for m in ARCHITECTURES} == texts

    assert repo(tmp_path, "remove", "b", *url) == 0
    server.wait_until(lambda: not ready_models(server) & MODELS_OF_B, "the launcher to have seen b go")
    restart(server)
    assert ready_models(server) == MODELS_OF_A
    assert "".join(grpc_stream(server, "a-generator", PROMPT, 24)) == texts["a"]


def test_an_unload_that_triton_cannot_finish_is_named(
    server: ServerUnderTest, engines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Triton 2.50 never forgets a request whose client left an ensemble mid-stream."""
    url = ("--url", server.http_url)
    assert repo(tmp_path, "add", "b", *added(engines), *url) == 0
    with closing(grpc_stream(server, "b", PROMPT, 1800)) as stream:  # a client that is not ours: it sends no stop
        next(stream)
    assert repo(tmp_path, "remove", "b", *url, "--wait-seconds", "1") == 1
    said = capsys.readouterr().err
    assert "b is UNLOADING" in said
    assert "restart the server" in said
    assert (tmp_path / "repository" / "b").is_dir()  # it is served still: nothing is taken from under it
    server.wait_until(lambda: not ready_models(server) & MODELS_OF_B, "the launcher to have seen b go")
    assert server.is_ready()  # a is not touched
    assert repo(tmp_path, "remove", "b") == 0
    restart(server)
    assert ready_models(server) == MODELS_OF_A


def ready_models(server: ServerUnderTest) -> set[str]:
    return {model for model, state in server.ready()[1].get("models", {}).items() if state == "READY"}


def restart(server: ServerUnderTest) -> None:
    """By the launcher, after kill -9 of tritonserver."""
    first = server.tritonserver()
    os.kill(first, signal.SIGKILL)
    server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
