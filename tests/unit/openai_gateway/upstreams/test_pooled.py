"""The upstream over servers that are full, silent, drained, unknown, or know nothing of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from fake_generators import Fate
from python_llm.errors import EngineFailure, NotFound, ServeError, Unavailable, Unsupported
from tests.unit.openai_gateway.upstreams.conftest import Behind, behind
from triton_llm_client import Chunk, GenerateParams

PARAMS = GenerateParams(max_tokens=6, seed=1)


async def answer(servers: Behind, params: GenerateParams = PARAMS, model: str = "m", prefix: str = "") -> list[Chunk]:
    return [chunk async for chunk in servers.upstream.stream(model, "p", params, request_id="r", prefix=prefix)]


async def until(condition: Callable[[], object]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(poll(), 60)


def test_a_full_server_is_left_for_another_and_asked_again_when_it_hints() -> None:
    async def run() -> None:
        async with behind(2) as servers:
            for generator in servers.generators.values():
                generator.fates.append(Fate(0, "full"))
            assert (await answer(servers))[-1].finish_reason is not None
            assert sum(len(generator.calls) for generator in servers.generators.values()) == 3
            assert 'retries_total{reason="queue_full"} 2.0' in servers.metrics

    asyncio.run(run())


def test_all_servers_away_is_unavailable_at_once_and_says_why() -> None:
    async def run() -> None:
        async with behind(2, missed_looks=1) as servers:
            for name in servers.says:
                servers.says[name] = None
            await until(lambda: not servers.pool.able("m"))
            with pytest.raises(Unavailable, match=r"no_server.*127\.0\.0\.2:9: .*refused"):
                await answer(servers)
            assert not (await servers.upstream.ready()).ready

    asyncio.run(run())


def test_a_model_nobody_has_is_not_found() -> None:
    async def run() -> None:
        async with behind(1) as servers:
            with pytest.raises(NotFound, match="known models: m"):
                await answer(servers, model="other")
            assert [card.name for card in await servers.upstream.models()] == ["m"]

    asyncio.run(run())


def test_a_request_that_fails_everywhere_ends_and_is_not_tried_for_ever() -> None:
    async def run() -> None:
        async with behind(3, most_failures=2) as servers:
            for generator in servers.generators.values():
                generator.fates.extend([Fate(0, "fail")] * 9)
            with pytest.raises(EngineFailure):
                await answer(servers)
            assert sum(len(generator.calls) for generator in servers.generators.values()) == 2

    asyncio.run(run())


def test_a_draining_launcher_hands_its_streams_over_and_gets_no_more() -> None:
    async def run() -> None:
        async with behind(2) as servers:
            (first, generator), (second, other) = servers.generators.items()
            servers.says[second] = None
            servers.pool.drain(second)

            async def drain() -> None:
                servers.pool.restore(second)
                servers.says[second] = dict(servers.says[first] or {})
                servers.says[first] = {"phase": "draining", "reasons": ["it drains"], "models": {}}

            generator.on_drain = drain
            generator.fates.append(Fate(2, "drain"))
            chunks = await answer(servers)
            assert chunks[-1].finish_reason is not None
            assert (len(generator.calls), len(other.calls)) == (1, 1)
            assert list(other.calls[0].tensors["resume_ids"]) == [i for chunk in chunks[:2] for i in chunk.output_ids]
            await answer(servers)
            assert len(generator.calls) == 1

    asyncio.run(run())


def test_the_only_server_keeps_its_streams_while_it_drains() -> None:
    async def run() -> None:
        async with behind(1) as servers:
            stream = servers.upstream.stream("m", "p", PARAMS, request_id="r")
            async with aclosing(stream) as chunks:
                told = [await anext(chunks)]
                servers.pool.drain("127.0.0.1:9")
                told += [chunk async for chunk in chunks]
            assert told[-1].finish_reason is not None
            with pytest.raises(Unavailable, match="drained by request"):
                await answer(servers)

    asyncio.run(run())


def test_leaving_cancels_at_the_generator_and_gives_the_load_back() -> None:
    async def run() -> None:
        async with behind(1) as servers:
            (generator,) = servers.generators.values()
            async with aclosing(servers.upstream.stream("m", "p", PARAMS, request_id="r")) as chunks:
                await anext(chunks)
                assert servers.pool.servers[0].load > 0
            await asyncio.sleep(0)
            assert (generator.left, servers.pool.servers[0].load, servers.pool.servers[0].running) == (1, 0, 0)
            assert 'outcome="left"} 1.0' in servers.metrics

    asyncio.run(run())


def test_beams_are_refused_by_name_once_text_was_streamed() -> None:
    async def run() -> None:
        async with behind(2) as servers:
            for generator in servers.generators.values():
                generator.fates.append(Fate(1, "die"))
            params = GenerateParams(max_tokens=6, seed=1, beam_width=2, num_return_sequences=2)
            with pytest.raises(Unsupported, match="beam_width"):
                await answer(servers, params)

    asyncio.run(run())


def test_a_stopped_gateway_ends_what_runs_with_its_own_words() -> None:
    async def run() -> None:
        async with behind(2) as servers:
            stream = servers.upstream.stream("m", "p", PARAMS, request_id="r")
            await anext(stream)
            servers.pool.stop(Unavailable("draining", "gateway: it stops."))
            with pytest.raises(ServeError, match="it stops"):
                _ = [chunk async for chunk in stream]
            assert not (await servers.upstream.ready()).ready

    asyncio.run(run())


def test_a_prefix_goes_to_one_server() -> None:
    async def run() -> None:
        async with behind(3) as servers:
            for _ in range(6):
                await answer(servers, prefix="once upon")
            assert sorted(len(generator.calls) for generator in servers.generators.values()) == [0, 0, 6]

    asyncio.run(run())
