"""The upstream with its tokens counted: against the caller's limits, and for the log."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from openai_gateway.request_record import RECORD
from openai_gateway.upstream import ModelCard, Readiness, Upstream
from openai_gateway.upstreams.work import estimate
from openai_gateway.usage import Usage
from triton_llm_client import Chunk, GenerateParams, Prompt

__all__ = ["Metered"]


class Metered:
    """See Upstream. A request takes what it may need at most out of its limits, and gives back in the end what it did
    not use. ``models``: names, all others are not there; empty: all are.
    """

    def __init__(self, upstream: Upstream, models: Sequence[str] = ()) -> None:
        self._upstream = upstream
        self._models = frozenset(models)

    async def stream(
        self, model: str, prompt: Prompt, params: GenerateParams, *, request_id: str, prefix: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        record = RECORD.get(None)
        chunks = self._upstream.stream(model, prompt, params, request_id=request_id, prefix=prefix)
        if record is None:
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
            return
        record.model = model
        allowance = record.allowance
        of_prompt = math.ceil(estimate(prompt, replace(params, max_tokens=0)))
        reserved = allowance.reserve(math.ceil(estimate(prompt, params))) if allowance else None
        usage, begun = Usage(), False
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    begun = True
                    usage.add(0, chunk)
                    yield chunk
        finally:
            told = usage.told()
            prompt_tokens = told["prompt_tokens"] or (of_prompt if begun else 0)  # the last chunk tells it
            record.prompt_tokens += prompt_tokens
            record.completion_tokens += told["completion_tokens"]
            if allowance:
                allowance.settle(reserved, prompt_tokens + told["completion_tokens"])

    def wait_for_server(self) -> Coroutine[Any, Any, None] | None:
        return self._upstream.wait_for_server()

    async def models(self) -> Sequence[ModelCard]:
        cards = await self._upstream.models()
        if not self._models:
            return cards
        return [card for card in cards if self._models & {card.name, card.name.partition(":")[0]}]

    async def ready(self) -> Readiness:
        return await self._upstream.ready()

    async def close(self) -> None:
        await self._upstream.close()
