"""One request from its first server to the end of its answer, however many servers that takes.

Until something was streamed the request is simply sent again. After that each sequence goes on by itself: a request
with the tokens that the caller has (``resume_ids``), the sequence's index and the request's seed, so that penalties,
guides, stop words and the sampling noise go on where they were.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from openai_gateway.metrics import GatewayMetrics
from openai_gateway.upstreams.merge import merged
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.progress import Progress
from openai_gateway.upstreams.retries import may_go_elsewhere
from openai_gateway.upstreams.search import Search
from openai_gateway.upstreams.segment import Segment
from openai_gateway.upstreams.server import Server
from openai_gateway.upstreams.settings import UpstreamSettings
from openai_gateway.upstreams.work import estimate
from python_llm.errors import EngineFailure, ServeError, Unsupported
from triton_llm_client import Chunk, GenerateParams, Prompt

__all__ = ["Ask", "Survivor"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked. ``version``: of the model; empty: the one Triton chooses."""

    model: str
    version: str
    prompt: Prompt
    params: GenerateParams
    request_id: str
    prefix: str = ""


class Survivor:
    """`chunks` once."""

    def __init__(self, pool: Pool, settings: UpstreamSettings, metrics: GatewayMetrics, ask: Ask) -> None:
        self._pool, self._settings, self._metrics, self._ask = pool, settings, metrics, ask
        self._started = time.monotonic()
        self._segments = 0
        self._streamed = False
        self._why = ""  # the stream broke
        first, count = ask.params.resume_index or 0, ask.params.num_return_sequences or 1
        if (ask.params.beam_width or 1) > 1:
            count = ask.params.num_return_sequences or ask.params.beam_width or 1
        self._sequences = {i: Progress(i, list(ask.params.resume_ids)) for i in range(first, first + count)}
        self._unfinished = count  # sequences whose end was not passed on

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """The answer, as one stream.

        Raises:
            ServeError: the request is at fault, or no server is left that could answer.
        """
        async with aclosing(self._begin()) as chunks:
            async for chunk in chunks:
                self._streamed = True
                yield self._unbroken(chunk)
        left = [progress for progress in self._sequences.values() if not progress.ended]
        if left:
            async with aclosing(merged([self._go_on(progress, self._why) for progress in left])) as chunks:
                async for chunk in chunks:
                    yield self._unbroken(chunk)

    async def _begin(self) -> AsyncGenerator[Chunk, None]:
        """From the beginning to the end, or to where it broke after something was streamed."""
        search, why = self._search(broken=False), ""
        while True:
            params = self._in_time(self._ask.params)
            server = await search.next(estimate(self._ask.prompt, params))
            if why:
                self._metrics.retried(why)
            try:
                async with aclosing(self._segment(server, params).chunks()) as chunks:
                    async for chunk in chunks:
                        yield self._sequence(chunk).told(chunk)
                if not self._whole():
                    raise _cut_short()
            except ServeError as error:
                if self._streamed and not self._whole():
                    self._break(server, error)
                elif not self._streamed:
                    search.failed(server, error)
                    why = error.reason
                    continue
            return

    async def _go_on(self, progress: Progress, why: str) -> AsyncGenerator[Chunk, None]:
        """The rest of one sequence; ``why`` its stream broke."""
        search = self._search(broken=True)
        while not progress.ended:
            params = self._in_time(progress.going_on(self._ask.params))
            server = await search.next(estimate(self._ask.prompt, params))
            take = progress.last if progress.spent(self._ask.params) else progress.told
            came = False
            try:
                async with aclosing(self._segment(server, params).chunks()) as chunks:
                    async for chunk in chunks:
                        if not came:
                            came = True
                            self._metrics.resumed(why)
                        said = take(chunk)
                        if said is not None:
                            yield said
                if not progress.ended:
                    raise _cut_short()
            except ServeError as error:
                if progress.ended:
                    return
                if error.reason == "prompt_too_long" and progress.ids and not progress.full:
                    progress.full = True  # prompt and answer fill the context: only the end is to be told
                    continue
                if came:  # it came further: what went wrong before is over
                    search, why = self._search(broken=True), error.reason
                search.failed(server, error)

    def _break(self, server: Server, error: ServeError) -> None:
        """The stream broke in the middle of the answer. Raises the error where nobody can go on."""
        if not may_go_elsewhere(error) or self._pool.stopped is not None:
            raise error
        params = self._ask.params
        for name in ("beam_width", "sampling_parameters"):
            if getattr(params, name) not in (None, 1):
                raise Unsupported(
                    "cannot_resume",
                    f"{name}: server '{server.name}' was lost in the middle of the answer, and a request with it "
                    "cannot go on elsewhere; ask again.",
                ) from error
        self._why = error.reason
        _log.info("request '%s': it lost server '%s' (%s)", self._ask.request_id, server.name, error.reason)

    def _segment(self, server: Server, params: GenerateParams) -> Segment:
        ask, self._segments = self._ask, self._segments + 1
        request_id = ask.request_id if self._segments == 1 else f"{ask.request_id}.{self._segments}"
        return Segment(server, ask.model, ask.version, ask.prompt, params, request_id)

    def _search(self, *, broken: bool) -> Search:
        ask = self._ask
        return Search(self._pool, self._settings, ask.model, ask.version, ask.prefix, broken=broken)

    def _sequence(self, chunk: Chunk) -> Progress:
        found = self._sequences.get(chunk.sequence_index)
        if found is None:
            raise EngineFailure("internal", f"answer: sequence {chunk.sequence_index} was not asked for; report it.")
        return found

    def _whole(self) -> bool:
        return all(progress.ended for progress in self._sequences.values())

    def _unbroken(self, chunk: Chunk) -> Chunk:
        """What is told of the whole request stands in its last chunk alone, whoever sent it."""
        self._unfinished -= chunk.finish_reason is not None
        if chunk.input_tokens is None or not self._unfinished:
            return chunk
        return replace(chunk, input_tokens=None, seed=None, metrics=None)

    def _in_time(self, params: GenerateParams) -> GenerateParams:
        """A deadline counts from the request's arrival here."""
        if not params.timeout:
            return params
        passed = int((time.monotonic() - self._started) * 1e6)
        return replace(params, timeout=max(1, params.timeout - passed))


def _cut_short() -> EngineFailure:
    return EngineFailure("internal", "answer: its server ended it before it was whole.")
