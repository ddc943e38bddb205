"""The served generator, over gRPC streaming, through the client in this package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from python_llm.errors import EngineFailure
from triton_llm_client.aio import AsyncClient
from triton_llm_client.bench.load import Answer, Load, Outcome, PromptIds, closed_loop
from triton_llm_client.bench.server import own_server
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.chunks import Chunk
from triton_llm_client.failures import ServerUnreachable
from triton_llm_client.params import GenerateParams

__all__ = ["ServedSubject", "open_served"]


def open_served(setting: Setting) -> ServedSubject:
    """Connect to ``setting.url``, or start a server of our own for the artifact."""
    closing = ExitStack()
    if setting.url is not None:
        return ServedSubject(setting.url, setting.model, f"server at {setting.url}", closing)
    server = closing.enter_context(own_server(setting.artifact, setting.model))
    return ServedSubject(server.url, setting.model, "own server on the same artifact", closing, server.tail)


class ServedSubject:
    """One gRPC stream per request over one channel; every chunk is read as a client would.

    ``closing`` is closed with the subject; ``tail`` tells what the server said last, for when it breaks.
    """

    name = "served"

    def __init__(
        self, url: str, model: str, where: str, closing: ExitStack, tail: Callable[[], str] = lambda: ""
    ) -> None:
        self.flags = f"{where}, gRPC streaming, model {model}"
        self._closing = closing
        self._tail = tail
        self._loop = asyncio.new_event_loop()
        self._closing.callback(self._loop.close)
        self._client = AsyncClient(url, model=model)

    def run(self, load: Load) -> Outcome:
        """Raises ServerUnreachable when the server breaks; EngineFailure with its last lines when it is our own."""
        try:
            return self._loop.run_until_complete(closed_loop(self._send, load))
        except ServerUnreachable as error:
            if said := self._tail():
                raise EngineFailure("server_broke", f"{error.text}\nThe server's last lines:\n{said}") from error
            raise

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._closing.close()

    async def _send(self, prompt: PromptIds, output_tokens: int) -> Answer:
        params = GenerateParams(max_tokens=output_tokens, temperature=0.0, ignore_eos=True)
        answer = await self._client.generate(prompt, params, on_chunk=_ignore)
        if answer.finish_reason != "length" or answer.ttft_seconds is None:
            raise EngineFailure("ended_early", f"request '{answer.request_id}': {answer.finish_reason}.")
        return Answer(answer.output_tokens, answer.ttft_seconds, answer.total_seconds)


def _ignore(_: Chunk) -> None:
    """Streams."""
