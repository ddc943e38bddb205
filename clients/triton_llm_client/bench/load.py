"""A load and its closed loop: a fixed number of requests in flight until all are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Answer", "Load", "Outcome", "Subject", "closed_loop"]

PromptIds = tuple[int, ...]


@dataclass(frozen=True)
class Load:
    """Every prompt once, ``in_flight`` at a time, each answered with exactly ``output_tokens`` tokens, greedy."""

    prompts: tuple[PromptIds, ...]
    in_flight: int
    output_tokens: int


@dataclass(frozen=True)
class Answer:
    """Tokens and seconds of one request; times count from when it was sent."""

    tokens: int
    ttft_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class Outcome:
    """What a load took: ``seconds`` from the first request sent to the last answer complete."""

    seconds: float
    answers: tuple[Answer, ...]

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of wall time, prefill included."""
        return sum(answer.tokens for answer in self.answers) / self.seconds


class Subject(Protocol):
    """Something that answers prompts. Only one subject is at work at a time; the others are idle."""

    name: str
    flags: str  # what it runs with, printed beside its figures

    def run(self, load: Load) -> Outcome:
        """Answer the load; raises ServeError when any request fails."""

    def close(self) -> None: ...


async def closed_loop(send: Callable[[PromptIds, int], Awaitable[Answer]], load: Load) -> Outcome:
    """Keep ``load.in_flight`` requests running through ``send(prompt, output_tokens)`` until every prompt is done."""
    waiting = iter(load.prompts)
    answers: list[Answer] = []

    async def worker() -> None:
        for prompt in waiting:
            answers.append(await send(prompt, load.output_tokens))

    clock = asyncio.get_running_loop().time
    started = clock()
    await asyncio.gather(*(worker() for _ in range(load.in_flight)))
    return Outcome(clock() - started, tuple(answers))
