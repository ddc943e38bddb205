"""The upstream that the API sees: every request to one of several servers, and on to another where that one is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from openai_gateway.metrics import GatewayMetrics
from openai_gateway.upstream import ModelCard, Readiness
from openai_gateway.upstreams import versions
from openai_gateway.upstreams.catalogue import model_cards
from openai_gateway.upstreams.hold import Hold
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.seeds import seeded
from openai_gateway.upstreams.settings import UpstreamSettings
from openai_gateway.upstreams.survivor import Ask, Survivor
from openai_gateway.upstreams.tally import Tally
from python_llm.errors import NotFound, ServeError, Unavailable
from triton_llm_client import Chunk, GenerateParams, Prompt

__all__ = ["PooledUpstream"]


class PooledUpstream:
    """See Upstream. ``pool`` must be started on the event loop that uses this."""

    def __init__(self, pool: Pool, settings: UpstreamSettings, metrics: GatewayMetrics) -> None:
        self.pool = pool
        self._settings = settings
        self._metrics = metrics
        self._hold = Hold(pool, settings, metrics)

    async def stream(
        self, model: str, prompt: Prompt, params: GenerateParams, *, request_id: str, prefix: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        tally = Tally(self._metrics, model, params.tenant or "")
        ask = self._ask(model, prompt, params, request_id, prefix)
        outcome = "left"
        try:
            async with aclosing(self._chunks(ask, drawn=not versions.split(model)[1])) as chunks:
                async for chunk in chunks:
                    tally.saw(chunk)
                    yield chunk
            outcome = tally.finish_reason
        except ServeError as error:
            outcome = error.code
            tally.broke(error)
            raise
        finally:
            tally.ended(outcome)

    def wait_for_server(self) -> Coroutine[Any, Any, None] | None:
        return self._hold.wait()

    async def models(self) -> Sequence[ModelCard]:
        cards = model_cards(self.pool.servers)
        if not cards and not any(server.models for server in self.pool.servers):
            raise Unavailable("no_server", "servers: none has told its models yet; ask later: retry after 1 s.")
        self._metrics.know_models([card.name for card in cards])
        return cards

    async def ready(self) -> Readiness:
        if self.pool.stopped is not None:
            return Readiness(False, {"gateway": self.pool.stopped.text})
        troubles = {server.name: server.trouble for server in self.pool.servers}
        return Readiness(any(not trouble for trouble in troubles.values()), troubles)

    async def close(self) -> None:
        await self.pool.close()

    async def _chunks(self, ask: Ask, *, drawn: bool) -> AsyncGenerator[Chunk, None]:
        """``drawn``: nobody asked for the version. One that was rolled back a moment ago makes way for Triton's own."""
        begun = False
        try:
            async with aclosing(Survivor(self.pool, self._settings, self._metrics, ask).chunks()) as chunks:
                async for chunk in chunks:
                    begun = True
                    yield chunk
            return
        except NotFound:
            if begun or not drawn or not ask.version:
                raise
        again = replace(ask, version="")
        async with aclosing(Survivor(self.pool, self._settings, self._metrics, again).chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    def _ask(self, name: str, prompt: Prompt, params: GenerateParams, request_id: str, prefix: str) -> Ask:
        model, version = versions.split(name)
        weights = self._settings.weights.get(model)
        if weights and not version:
            version = versions.pick(weights, self.pool.versions(model), request_id)
        return Ask(model, version, prompt, seeded(params), request_id, prefix)
