"""A load and its loops: so many requests in flight until all are answered, or requests that come at given times."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from python_llm.errors import ServeError

__all__ = ["Answer", "BenchPrompt", "Load", "Outcome", "PromptIds", "Send", "Subject", "closed_loop", "run_load"]

PromptIds = tuple[int, ...]
BenchPrompt = PromptIds | str


@dataclass(frozen=True)
class Load:
    """Every prompt once, each answered with exactly ``output_tokens`` tokens, greedy.

    Closed loop: ``in_flight`` at a time. With ``starts`` (seconds from the beginning, one a prompt) an open loop:
    each prompt is sent at its time, whatever is in flight. ``tolerant``: a request that fails is an answer with an
    error; otherwise it ends the run.
    """

    prompts: tuple[BenchPrompt, ...]
    in_flight: int
    output_tokens: int
    starts: tuple[float, ...] = ()
    tolerant: bool = False


@dataclass(frozen=True)
class Answer:
    """Tokens and seconds of one request; times count from when it was meant to be sent.

    ``gaps``: seconds between a token and the next, in order; of several that came at once an equal share each.
    ``late_seconds``: from when it was meant to be sent to when it was; part of the other times.
    """

    tokens: int
    ttft_seconds: float
    total_seconds: float
    gaps: tuple[float, ...] = ()
    prompt_tokens: int = 0
    late_seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a load took: ``seconds`` from the first request sent to the last answer complete."""

    seconds: float
    answers: tuple[Answer, ...]

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second of wall time, prefill included."""
        return sum(answer.tokens for answer in self.answers) / self.seconds

    @property
    def good(self) -> tuple[Answer, ...]:
        """Those without an error."""
        return tuple(answer for answer in self.answers if not answer.error)


class Subject(Protocol):
    """Something that answers prompts. Only one subject is at work at a time; the others are idle."""

    name: str
    flags: str  # what it runs with, printed beside its figures

    def run(self, load: Load) -> Outcome:
        """Answer the load; raises ServeError when any request fails, unless the load is tolerant."""

    def close(self) -> None: ...


Send = Callable[[BenchPrompt, int], Awaitable[Answer]]


async def run_load(send: Send, load: Load) -> Outcome:
    """The load through ``send(prompt, output_tokens)``, in the loop that it asks for."""
    each = _tolerating(send) if load.tolerant else send
    return await (_open_loop(each, load) if load.starts else closed_loop(each, load))


async def closed_loop(send: Send, load: Load) -> Outcome:
    """Keep ``load.in_flight`` requests running until every prompt is done."""
    waiting = iter(load.prompts)
    answers: list[Answer] = []

    async def worker() -> None:
        for prompt in waiting:
            answers.append(await send(prompt, load.output_tokens))

    clock = asyncio.get_running_loop().time
    started = clock()
    await asyncio.gather(*(worker() for _ in range(load.in_flight)))
    return Outcome(clock() - started, tuple(answers))


async def _open_loop(send: Send, load: Load) -> Outcome:
    clock = asyncio.get_running_loop().time
    started = clock()

    async def one(prompt: BenchPrompt, start: float) -> Answer:
        await asyncio.sleep(started + start - clock())
        late = max(0.0, clock() - started - start)  # a busy machine sends late; the user would have waited all the same
        answer = await send(prompt, load.output_tokens)
        return replace(
            answer,
            ttft_seconds=answer.ttft_seconds + late,
            total_seconds=answer.total_seconds + late,
            late_seconds=late,
        )

    answers = await asyncio.gather(*map(one, load.prompts, load.starts))
    return Outcome(clock() - started, tuple(answers))


def _tolerating(send: Send) -> Send:
    async def sent(prompt: BenchPrompt, output_tokens: int) -> Answer:
        started = asyncio.get_running_loop().time()
        try:
            return await send(prompt, output_tokens)
        except ServeError as error:
            return Answer(0, 0.0, asyncio.get_running_loop().time() - started, error=error.reason)

    return sent
