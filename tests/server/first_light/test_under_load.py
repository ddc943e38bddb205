"""Leavers, fairness and seeds on the paged engine behind a real Triton."""

from __future__ import annotations

import asyncio
import functools
from contextlib import aclosing

import pytest

from generator_status import generator_status
from server_under_test import ServerUnderTest
from triton_llm_client import AsyncClient, GenerateParams


@pytest.mark.parametrize("route", ["grpc", "http"])
def test_clients_that_leave_free_their_places(default_server: ServerUnderTest, route: str) -> None:
    before = generator_status(default_server, "smollm2-generator").steps
    asyncio.run(_leave(default_server.grpc_url if route == "grpc" else default_server.http_url, 20))
    status = functools.partial(generator_status, default_server, "smollm2-generator")
    default_server.wait_until(lambda: status().busy == 0, "20 of 20 places free")
    assert status().steps - before < 1900  # none of them ran to its own limit


async def _leave(url: str, count: int) -> None:
    """Open ``count`` streams of 1,900 tokens, read two chunks of each, leave them all."""
    async with AsyncClient(url, model="smollm2") as client:

        async def read_two(number: int) -> None:
            params = GenerateParams(max_tokens=1900, ignore_eos=True)
            seen = 0
            async with aclosing(client.stream(f"Voyage {number}", params)) as chunks:
                async for _ in chunks:
                    seen += 1
                    if seen == 2:
                        return
            raise AssertionError("the stream ended before two chunks")

        await asyncio.gather(*(read_two(number) for number in range(count)))


def test_a_short_request_behind_eight_long_ones_finishes_first(tiny_server: ServerUnderTest) -> None:
    assert asyncio.run(_finish_order(tiny_server.grpc_url))[0] == "short"


async def _finish_order(url: str) -> list[str]:
    order: list[str] = []
    async with AsyncClient(url, model="tiny") as client:

        async def ask(name: str, prompt: list[int], max_tokens: int) -> None:
            await client.generate(prompt, GenerateParams(max_tokens=max_tokens, ignore_eos=True))
            order.append(name)

        long = [asyncio.create_task(ask(f"long {n}", [10 + n] * 1024, 500)) for n in range(8)]
        await asyncio.sleep(0)  # the long ones are sent first
        await asyncio.gather(asyncio.create_task(ask("short", [7] * 16, 8)), *long)
    return order


def test_seeds_decide_sampled_text_whoever_runs_beside(tiny_server: ServerUnderTest) -> None:
    params = GenerateParams(max_tokens=40, temperature=1.0, seed=11, ignore_eos=True)

    async def run() -> tuple[list[str], set[str]]:
        async with AsyncClient(tiny_server.grpc_url, model="tiny") as client:
            alone = await client.generate("The tide", params)
            beside = [client.generate(f"Other {n}", GenerateParams(max_tokens=40)) for n in range(8)]
            again, *_ = await asyncio.gather(client.generate("The tide", params), *beside)
            unseeded = GenerateParams(max_tokens=40, temperature=1.0, ignore_eos=True)
            free = await asyncio.gather(*(client.generate("The tide", unseeded) for _ in range(4)))
        return [alone.text, again.text], {answer.text for answer in free}

    seeded, unseeded = asyncio.run(run())
    assert seeded[0] == seeded[1]
    assert len(unseeded) > 1
