"""Versions of a model on a real Triton: they change under traffic, and no request fails, tears or mixes them."""

from __future__ import annotations

import asyncio
import json
import mmap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from build_engines.build import build
from build_engines.spec import EngineSpec
from gateway_under_test import GatewayUnderTest, running_gateway
from generator_status import generator_status
from open_streams import grpc_stream
from python_llm.machine import resident_bytes
from server_under_test import ServerUnderTest, running_server
from tiny_checkpoint import make_tiny_checkpoint
from triton_launcher import processes
from triton_llm.cli import main
from triton_llm_client import AsyncClient, Client, GenerateParams
from unary_calls import UnaryCalls

KV_BYTES = 256 << 20  # so large that each of its arrays is a mapping of its own
KNOBS = ("kv_cache_precision=f32", "inference_precision=f32", f"kv_cache_bytes={KV_BYTES}", "threads=1")
PROMPT = "The tide went out"
PARAMS = GenerateParams(max_tokens=160, ignore_eos=True)
STREAMS, ROUNDS = 16, 10
MB = 1e6
MOST_GROWTH = 1.05


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two builds of one shape, with other weights: what they say differs."""
    folder = tmp_path_factory.mktemp("versions")
    for seed, name in enumerate(("one", "two")):
        checkpoint = make_tiny_checkpoint(folder / name, seed=seed)
        build(EngineSpec(model=str(checkpoint), name=name, quant="none", check_quality=False), folder / "engines")
    return folder / "engines"


@pytest.fixture
def server(engines: Path, tmp_path: Path) -> Iterator[ServerUnderTest]:
    """Serves version 1 of ``m``; version 2 is written and not served."""
    knobs = [word for knob in KNOBS for word in ("--set", knob)]
    assert repo(tmp_path, "add", "m", "--artifact", engines / "one", *knobs) == 0
    assert repo(tmp_path, "add", "m", "--version", 2, "--artifact", engines / "two") == 0
    with running_server(tmp_path / "repository", run_dir=tmp_path / "run") as running:
        yield running


def repo(tmp_path: Path, action: str, *arguments: object) -> int:
    run_dir = ("--run-dir", tmp_path / "run") if action in ("promote", "rollback") else ()
    return main(["repo", action, *map(str, (*arguments, *run_dir, "--repository", tmp_path / "repository"))])


Said = dict[str, tuple[str, str]]  # version -> what it says to the prompt: the generator, the unary view


def said_alone(server: ServerUnderTest, tmp_path: Path) -> Said:
    """What each version says, alone. Version 1 answers before and after, and the memory is warm."""
    found = {}
    for version, action in (("1", ("promote", "m", 2)), ("2", ("rollback", "m"))):
        with Client(server.grpc_url, model="m") as client:
            found[version] = (client.generate(PROMPT, PARAMS).text, unary_text(server))
        assert repo(tmp_path, *action, "--url", server.http_url) == 0
    assert not {*found["1"]} & {*found["2"]}
    return found


class Traffic:
    """Requests that follow each other in lanes until the block ends; every answer is kept by where it was asked."""

    def __init__(self, server: ServerUnderTest) -> None:
        self.answers: dict[str, list[str]] = {"m-generator": [], "m": [], "m-unary": []}
        self._server = server
        self._over = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        generator = AsyncClient(self._server.grpc_url, model="m")
        ensemble = AsyncClient(self._server.grpc_url, model="m", ensemble=True)
        async with generator, ensemble:
            lanes = [("m-generator", lambda: _text(generator)) for _ in range(STREAMS)]
            lanes += [("m", lambda: _text(ensemble)), ("m-unary", self._unary)]
            tasks = [asyncio.create_task(self._lane(place, ask)) for place, ask in lanes]
            while not all(self.answers.values()):
                await asyncio.sleep(0.05)
            try:
                yield
            finally:
                self._over = True
                await asyncio.gather(*tasks)

    async def _lane(self, place: str, ask: Callable[[], Awaitable[str]]) -> None:
        while not self._over:
            self.answers[place].append(await ask())

    async def _unary(self) -> str:
        return await asyncio.to_thread(unary_text, self._server)

    def check(self, said: Said) -> None:
        """Every answer is one version's, whole; both have answered."""
        streamed, unary = ({texts[place] for texts in said.values()} for place in (0, 1))
        assert set(self.answers["m-generator"]) == streamed
        assert set(self.answers["m"]) <= streamed
        assert set(self.answers["m-unary"]) <= unary


def switch_under_traffic(server: ServerUnderTest, tmp_path: Path, rounds: int) -> Traffic:
    """Promote and roll back so often; version 1 is served before and after."""
    traffic = Traffic(server)
    url = ("--url", server.http_url)

    async def scene() -> None:
        async with traffic.running():
            for _ in range(rounds):
                assert await asyncio.to_thread(repo, tmp_path, "promote", "m", 2, *url) == 0
                assert await asyncio.to_thread(repo, tmp_path, "rollback", "m", *url) == 0

    asyncio.run(scene())
    return traffic


async def _text(client: AsyncClient) -> str:
    answer = await client.generate(PROMPT, PARAMS)
    assert answer.finish_reason == "length"
    return answer.text


def unary_text(server: ServerUnderTest) -> str:
    with UnaryCalls(server, "m-unary") as calls:
        return str(calls.send(PROMPT, PARAMS.max_tokens or 0).value("text_output"))


def resident(server: ServerUnderTest) -> dict[str, float]:
    """MB of tritonserver and of each backend process, by model and version."""
    found = {"tritonserver": resident_bytes(process=server.tritonserver()) / MB}
    for pid, stub in processes.stubs(server.marker).items():
        found[f"{stub.model}:{stub.version}:{pid}"] = resident_bytes(process=pid) / MB
    return found


def virtual_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[0]) * mmap.PAGESIZE


def generators(server: ServerUnderTest, version: str) -> list[int]:
    stubs = processes.stubs(server.marker).items()
    return [pid for pid, stub in stubs if (stub.model, stub.version) == ("m-generator", version)]


def leave_midway(server: ServerUnderTest) -> None:
    """Clients that are not ours, which send no stop; on a busy machine an answer may be whole before one left."""
    left = 0
    while left < 3:
        with closing(grpc_stream(server, "m", PROMPT, 1800)) as stream:
            next(stream)
        left += generator_status(server, "m-generator").running > 0


def test_promoted_and_rolled_back_ten_times_under_sixteen_streams(server: ServerUnderTest, tmp_path: Path) -> None:
    said = said_alone(server, tmp_path)
    switch_under_traffic(server, tmp_path, 2)  # from here on caches, pools and threads are what they will be
    first, before = server.tritonserver(), resident(server)
    switch_under_traffic(server, tmp_path, ROUNDS).check(said)
    after = resident(server)
    assert len(after) == len(before) == 5  # one process for each role, and tritonserver
    assert sum(after.values()) <= MOST_GROWTH * sum(before.values())
    assert server.tritonserver() == first
    assert server.is_ready()


def test_promoted_while_clients_leave_the_ensemble(
    server: ServerUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Triton 2.50 loses count of them: it keeps the old version's processes, but no cache and no weights."""
    said = said_alone(server, tmp_path)
    (old,) = generators(server, "1")
    leave_midway(server)
    virtual = virtual_bytes(old)
    traffic = Traffic(server)
    capsys.readouterr()

    async def scene() -> None:
        async with traffic.running():
            promoted = ("promote", "m", 2, "--url", server.http_url, "--wait-seconds", 20, "--json")
            assert await asyncio.to_thread(repo, tmp_path, *promoted) == 0

    asyncio.run(scene())
    traffic.check(said)
    left = json.loads(capsys.readouterr().out)["left"]
    assert left["m-generator:1"] == "UNLOADING"
    server.wait_until(lambda: virtual_bytes(old) <= virtual - KV_BYTES, "the old version's cache to be free")
    assert repo(tmp_path, "rollback", "m", "--url", server.http_url) == 0
    with Client(server.grpc_url, model="m") as client:
        assert client.generate(PROMPT, PARAMS).text == said["1"][0]
    assert server.is_ready()


def test_a_canary_takes_its_share_at_the_gateway(server: ServerUnderTest, tmp_path: Path) -> None:
    """By weight where no version is named, and by name; the rollback ends it."""
    said = {version: texts[0] for version, texts in said_alone(server, tmp_path).items()}
    url = ("--url", server.http_url)

    def answer(gateway: GatewayUnderTest, model: str = "m") -> str:
        body = {"model": model, "prompt": PROMPT, "max_tokens": 160, "ignore_eos": True, "temperature": 0}
        return str(gateway.post("/v1/completions", body)["choices"][0]["text"])

    def names(gateway: GatewayUnderTest) -> set[str]:
        return {card["id"] for card in gateway.get("/v1/models")["data"]}

    with running_gateway([server], tmp_path / "gateway.log", extra=("--weights", "m=1:1,2:1")) as gateway:
        assert {answer(gateway) for _ in range(4)} == {said["1"]}  # version 2 is not there: its share is the other's
        assert repo(tmp_path, "promote", "m", 2, "--keep-old", *url) == 0
        gateway.wait_until(lambda: "m:2" in names(gateway), "the gateway to know version 2")
        assert answer(gateway, "m:2") == said["2"]
        assert {answer(gateway) for _ in range(24)} == {*said.values()}  # one alone: once in eight million runs
        assert answer(gateway, "m:1") == said["1"]
        with Client(server.grpc_url, model="m", ensemble=True) as client:
            assert client.generate(PROMPT, PARAMS).text == said["2"]
        assert repo(tmp_path, "rollback", "m", *url) == 0
        assert {answer(gateway) for _ in range(12)} == {said["1"]}
