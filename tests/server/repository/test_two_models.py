"""Two architectures from one repository: one is added, used and removed while streams run on the other."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.model_config import ROLES_OF_A_MODEL
from build_engines.spec import EngineSpec
from generator_status import generator_status
from open_streams import OpenStreams, grpc_stream
from python_llm.control_access import ControlAccess
from python_llm.errors import NotFound
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint
from triton_launcher import processes
from triton_llm.cli import main
from triton_llm_client import AsyncClient, Client, GenerateParams

ARCHITECTURES = {"a": "llama", "b": "qwen2"}
KNOBS = ("kv_cache_precision=f32", "inference_precision=f32", "kv_cache_bytes=67108864", "threads=1")
MODELS_OF_A, MODELS_OF_B = ({x, *(f"{x}-{role}" for role in ROLES_OF_A_MODEL)} for x in "ab")
KV_BYTES = 256 << 20  # so large that each of its arrays is a mapping of its own
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
def server(engines: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerUnderTest]:
    """Serves ``a``; the parameter is more of its command line."""
    assert repo(tmp_path, "add", "a", *added(engines)) == 0
    extra = getattr(request, "param", ())
    with running_server(tmp_path / "repository", run_dir=tmp_path / "run", extra=extra) as running:
        yield running


def repo(tmp_path: Path, action: str, *arguments: str) -> int:
    """As from the project's folder, where ``run`` is the launcher's."""
    run_dir = ("--run-dir", str(tmp_path / "run")) if action == "remove" else ()
    return main(["repo", action, *arguments, *run_dir, "--repository", str(tmp_path / "repository")])


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


@pytest.mark.parametrize("server", [("--stall-seconds", "12")], indirect=True)
def test_an_unload_that_triton_cannot_finish_is_named(
    server: ServerUnderTest, engines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Triton 2.50 never forgets a request whose client left an ensemble mid-stream."""
    url = ("--url", server.http_url)
    assert repo(tmp_path, "add", "b", *added(engines), "--set", f"kv_cache_bytes={KV_BYTES}", *url) == 0
    (stub,) = generators_of_b(server)
    leave_midway(server)
    address_space = virtual_bytes(stub)
    assert repo(tmp_path, "remove", "b", *url, "--wait-seconds", "1") == 1
    said = capsys.readouterr().err
    for part in ("b is UNLOADING", "restart the server", "Its engine is retired"):
        assert part in said
    assert generators_of_b(server) == (stub,)  # Triton keeps the process
    server.wait_until(lambda: address_space - virtual_bytes(stub) >= KV_BYTES, "the KV memory to be free")
    assert (tmp_path / "repository" / "b").is_dir()  # it is served still: nothing is taken from under it
    server.wait_until(lambda: "stuck" in str(server.ready()[1].get("models")), "/ready to name what is stuck")
    assert not ready_models(server) & MODELS_OF_B
    assert server.is_ready()  # a is not touched

    assert repo(tmp_path, "add", "b", *added(engines), *url) == 0
    again = "".join(grpc_stream(server, "b-generator", PROMPT, 24))
    restart(server)
    assert len(generators_of_b(server)) == 1  # what was stuck is gone
    assert "".join(grpc_stream(server, "b-generator", PROMPT, 24)) == again
    assert secrets_told(server, said) == []


def leave_midway(server: ServerUnderTest) -> None:
    """Clients that are not ours, which send no stop; on a busy machine an answer may be whole before one left."""
    left = 0
    while left < 3:
        with closing(grpc_stream(server, "b", PROMPT, 1800)) as stream:
            next(stream)
        left += generator_status(server, "b-generator").running > 0


def generators_of_b(server: ServerUnderTest) -> tuple[int, ...]:
    return tuple(pid for pid, stub in processes.stubs(server.marker).items() if stub.model == "b-generator")


def virtual_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[0]) * mmap.PAGESIZE


def secrets_told(server: ServerUnderTest, said: str) -> list[str]:
    """Where the secret of the present start stands, or an older one might: nowhere."""
    secret = ControlAccess.read(server.run_dir).secret
    texts = {path.name: path.read_text("utf-8", "replace") for path in (server.log_path, server.launcher_log_path)}
    return [name for name, text in {**texts, "repo": said}.items() if secret in text or '"secret"' in text]


def ready_models(server: ServerUnderTest) -> set[str]:
    return {model for model, state in server.ready()[1].get("models", {}).items() if state == "READY"}


def restart(server: ServerUnderTest) -> None:
    """By the launcher, after kill -9 of tritonserver."""
    first = server.tritonserver()
    os.kill(first, signal.SIGKILL)
    server.wait_until(lambda: server.tritonserver() not in (0, first) and server.is_ready(), "the service back")
