"""Requests of a server on this machine, with its clock beside ours: the monotonic clock is one for all processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from python_llm.errors import EngineFailure
from triton_llm_client.aio import AsyncClient
from triton_llm_client.bench.load import PromptIds
from triton_llm_client.chunks import Chunk
from triton_llm_client.params import GenerateParams

__all__ = ["Times", "ask_served"]


@dataclass(frozen=True)
class Times:
    """Nanoseconds of the monotonic clock: at the client, at the generator, in the engine, at the client again.

    ``first_tokens``: how many the first chunk brought.
    """

    tokens: int
    sent: int
    arrived: int
    scheduled: int
    first_made: int
    last_made: int
    first_seen: int
    last_seen: int
    first_tokens: int = 1


def ask_served(url: str, model: str, prompts: Sequence[PromptIds], in_flight: int, tokens: int) -> list[Times]:
    """Each prompt once, so many in flight. Raises ServeError where one fails."""
    return asyncio.run(_ask(url, model, prompts, in_flight, tokens))


async def _ask(url: str, model: str, prompts: Sequence[PromptIds], in_flight: int, tokens: int) -> list[Times]:
    waiting, found = iter(prompts), []
    async with AsyncClient(url, model=model) as client:

        async def worker() -> None:
            for prompt in waiting:
                found.append(await _one(client, prompt, tokens))

        await asyncio.gather(*(worker() for _ in range(in_flight)))
    return found


async def _one(client: AsyncClient, prompt: PromptIds, tokens: int) -> Times:
    seen: list[int] = []
    counts: list[int] = []

    def look(chunk: Chunk) -> None:
        if chunk.output_ids:
            seen.append(time.monotonic_ns())
            counts.append(len(chunk.output_ids))

    params = GenerateParams(max_tokens=tokens, temperature=0.0, ignore_eos=True, return_perf_metrics=True)
    sent = time.monotonic_ns()
    answer = await client.generate(prompt, params, on_chunk=look)
    told = answer.metrics
    if told is None or not told.last_token_time_ns or not seen:
        raise EngineFailure("no_metrics", f"request '{answer.request_id}': the server told no times of it.")
    return Times(
        answer.output_tokens,
        sent,
        told.arrival_time_ns,
        told.first_scheduled_time_ns,
        told.first_token_time_ns,
        told.last_token_time_ns,
        seen[0],
        seen[-1],
        counts[0],
    )
