"""An upstream whose generator answers by script; what it is asked was written by the real client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from openai_gateway.upstream import ModelCard, Readiness
from python_llm.errors import ServeError
from triton_llm_client import AsyncClient, Chunk, GenerateParams, Prompt
from triton_llm_client.tensors import checked_inputs
from triton_llm_client.transport import Call

__all__ = ["PAUSE", "Asked", "ScriptedUpstream", "Step", "words"]

PAUSE = object()  # in an answer: wait until the gate opens
Step = Chunk | ServeError | object


@dataclass(frozen=True)
class Asked:
    """A request as it would go over the wire; ``tensors``: input -> its flat values."""

    model: str
    request_id: str
    prefix: str
    tensors: dict[str, Any]


class ScriptedUpstream:
    """``answers``: what the next requests get, chunks, errors and PAUSE; the last one stays. ``asked``: what came.

    ``left``: answers that were not read to their end. See Upstream for the rest.
    """

    url = "scripted://"

    def __init__(self, answers: Sequence[Sequence[Step]], cards: Sequence[ModelCard], *, is_ready: bool = True) -> None:
        self.answers = deque(answers)
        self.asked: list[Asked] = []
        self.left = 0
        self.gate = asyncio.Event()
        self.is_ready = is_ready
        self._cards = list(cards)
        self._prefix = ""

    async def stream(
        self, model: str, prompt: Prompt, params: GenerateParams, *, request_id: str, prefix: str = ""
    ) -> AsyncGenerator[Chunk, None]:
        self._prefix = prefix
        async for chunk in AsyncClient(model=model, transport=self).stream(prompt, params, request_id=request_id):
            yield chunk

    async def chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        """As a Transport."""
        tensors = {row.name: list(values) for row, values in checked_inputs(call.contract, call.inputs())}
        self.asked.append(Asked(call.model, call.request_id, self._prefix, tensors))
        steps = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        ended = False
        try:
            for step in steps:
                if step is PAUSE:
                    await self.gate.wait()
                elif isinstance(step, ServeError):
                    ended = True
                    raise step
                else:
                    assert isinstance(step, Chunk)
                    yield step
            ended = True
        finally:
            self.left += not ended

    def wait_for_server(self) -> None:
        """One is always there."""

    async def models(self) -> Sequence[ModelCard]:
        return self._cards

    async def ready(self, model: str = "") -> Any:
        return Readiness(self.is_ready, {"10.0.0.1:8001": "" if self.is_ready else "starting"})

    async def close(self) -> None:
        """Nothing is open."""


def words(*texts: str, reason: str = "stop", index: int = 0, prompt_tokens: int | None = 5) -> list[Chunk]:
    """An answer of one token a text, with its end in the last."""
    last = len(texts)
    chunks = [Chunk(text, (number,), index) for number, text in enumerate(texts[:-1], 1)]
    return [*chunks, Chunk(texts[-1], (last,), index, reason, input_tokens=prompt_tokens, output_tokens=last, seed=7)]
