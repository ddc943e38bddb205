"""A batch: many requests, a bounded number at once, results in the order of the input."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from python_llm.errors import DeadlineExceeded, NotFound, RequestCancelled, ServeError, Unavailable
from triton_llm_client.aio import AsyncClient
from triton_llm_client.batch_line import Line
from triton_llm_client.batch_work import Work
from triton_llm_client.results import Completion
from triton_llm_client.transport import Transport

__all__ = ["Batch", "Outcome", "in_order"]

S = TypeVar("S")
T = TypeVar("T")

_LONGEST_PAUSE_SECONDS = 5.0
_AHEAD = 8  # results that may wait for the one before them, per request at once


@dataclass(frozen=True, slots=True)
class Outcome:
    """A line's result as it stands in the output; ``error`` where it ended in one."""

    line: Line
    result: dict[str, Any]
    error: ServeError | None = None
    output_tokens: int = 0


class Batch:
    """Answers lines through one server.

    What is not to be had now (a full queue, a server that restarts) is asked for again for ``retry_seconds``. A queue
    that stays full is that line's error; a server that stays away ends the batch with ServeError.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        model: str,
        ensemble: bool = False,
        retry_seconds: float = 60.0,
        pause_seconds: float = 0.25,
    ) -> None:
        self._transport = transport
        self._model = model
        self._ensemble = ensemble
        self._retry_seconds = retry_seconds
        self._pause_seconds = pause_seconds
        self._clients: dict[str, AsyncClient] = {}
        self._served: set[str] = set()  # models that have answered

    async def answer(self, line: Line) -> Outcome:
        """The line's outcome.

        Raises:
            ServeError: the server is not there; the line was not answered and can be asked later.
        """
        if line.work is None:
            assert line.error is not None
            return Outcome(line, line.form.failure(line, line.error), line.error)
        model = line.work.model or self._model
        try:
            completion = await self._ask(model, line.work)
        except ServeError as error:
            if isinstance(error, Unavailable) and error.reason != "queue_full":
                raise
            return Outcome(line, line.form.failure(line, error), error)
        return Outcome(line, line.form.answer(line, model, completion), output_tokens=completion.output_tokens)

    async def _ask(self, model: str, work: Work) -> Completion:
        pause, deadline = self._pause_seconds, 0.0
        while True:
            try:
                completion = await self._client(model).generate(work.prompt, work.params)
                if completion.finish_reason == "cancelled":
                    raise RequestCancelled("cancelled", "request: the server ended it before its answer was whole.")
            except ServeError as error:
                now = time.monotonic()
                deadline = deadline or now + self._retry_seconds
                if not self._may_pass(error, model) or now >= deadline:
                    raise
            else:
                self._served.add(model)
                return completion
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _may_pass(self, error: ServeError, model: str) -> bool:
        """A server that never answered is not waited for; a model that did and is unknown is being loaded again."""
        if isinstance(error, NotFound):
            return error.reason == "unknown_model" and model in self._served
        if isinstance(error, RequestCancelled):
            return not isinstance(error, DeadlineExceeded)
        return isinstance(error, Unavailable) and (error.reason == "queue_full" or bool(self._served))

    def _client(self, model: str) -> AsyncClient:
        if model not in self._clients:
            self._clients[model] = AsyncClient(model=model, ensemble=self._ensemble, transport=self._transport)
        return self._clients[model]


async def in_order(items: Iterable[S], work: Callable[[S], Awaitable[T]], concurrency: int) -> AsyncGenerator[T, None]:
    """Yield ``work`` of each item in the items' order, at most ``concurrency`` running at once.

    Leaving early cancels what runs and waits for its end. An exception of ``work`` is raised at its item's turn.
    """
    free = asyncio.Semaphore(concurrency)
    started: asyncio.Queue[asyncio.Future[T] | None] = asyncio.Queue(_AHEAD * concurrency)
    every: set[asyncio.Future[T]] = set()

    async def one(item: S) -> T:
        try:
            return await work(item)
        finally:
            free.release()

    def kept(task: asyncio.Future[T]) -> asyncio.Future[T]:
        every.add(task)
        return task

    async def start_all() -> None:
        try:
            for item in items:
                await free.acquire()
                await started.put(kept(asyncio.ensure_future(one(item))))
        except Exception as error:  # of the items themselves: raised after what came before it
            broken: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            broken.set_exception(error)
            await started.put(kept(broken))
        await started.put(None)

    starter = asyncio.ensure_future(start_all())
    try:
        while (task := await started.get()) is not None:
            yield await task
            every.discard(task)
    finally:
        starter.cancel()
        for task in every:
            task.cancel()
        await asyncio.gather(starter, *every, return_exceptions=True)
