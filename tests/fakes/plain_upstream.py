"""An upstream that answers word by word, and can be held in the middle of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from openai_gateway.upstream import ModelCard, Readiness
from triton_llm_client import Chunk, GenerateParams, Prompt

__all__ = ["PlainUpstream"]

PROMPT_TOKENS = 5


class PlainUpstream:
    """Models ``m`` and ``n``. An answer is ``max_tokens`` words (3 where none are said), ``w`` each.

    ``gate``: an answer waits for it after its first word. ``asked``: (model, params, request id). ``left``: answers
    that were not read to their end.
    """

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()  # an answer's first word is out
        self.asked: list[tuple[str, GenerateParams, str]] = []
        self.left = 0
        self.word = "w"

    async def stream(
        self, model: str, prompt: Prompt, params: GenerateParams, *, request_id: str, prefix: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        self.asked.append((model, params, request_id))
        count, ended = params.max_tokens or 3, False
        try:
            for number in range(1, count):
                yield Chunk(self.word, (number,), 0, None)
                self.begun.set()
                await self.gate.wait()
            ended = True
            yield Chunk(self.word, (count,), 0, "length", input_tokens=PROMPT_TOKENS, output_tokens=count)
        finally:
            self.left += not ended

    def wait_for_server(self) -> None:
        """One is always there."""

    async def models(self) -> Sequence[ModelCard]:
        return [ModelCard("m"), ModelCard("n")]

    async def ready(self) -> Readiness:
        return Readiness(True, {"10.0.0.1:8001": ""})

    async def close(self) -> None:
        """Nothing is open."""
