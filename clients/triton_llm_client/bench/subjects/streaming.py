"""What subjects share that are asked through an asynchronous client: a loop, and what to say when it breaks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack

from python_llm.errors import EngineFailure
from triton_llm_client.bench.load import Answer, BenchPrompt, Load, Outcome, run_load
from triton_llm_client.failures import ServerUnreachable

__all__ = ["StreamingSubject"]


class StreamingSubject(ABC):
    """``closing`` is closed with the subject; ``tail`` tells what the server said last, for when it breaks.

    ``loop``: another event loop than a new one; it is closed with the subject too.
    """

    def __init__(
        self,
        name: str,
        flags: str,
        closing: ExitStack,
        tail: Callable[[], str] = lambda: "",
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.name = name
        self.flags = flags
        self._tail = tail
        self._closing = closing
        self._loop = loop or asyncio.new_event_loop()
        self._closing.callback(self._loop.close)

    def run(self, load: Load) -> Outcome:
        """Raises ServerUnreachable when the server breaks; EngineFailure with its last lines when it is our own."""
        try:
            return self._loop.run_until_complete(run_load(self._send, load))
        except ServerUnreachable as error:
            if said := self._tail():
                raise EngineFailure("server_broke", f"{error.text}\nThe server's last lines:\n{said}") from error
            raise

    def close(self) -> None:
        self._loop.run_until_complete(self._disconnect())
        self._closing.close()

    @abstractmethod
    async def _send(self, prompt: BenchPrompt, output_tokens: int) -> Answer:
        """One request and its answer, timed."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close the client."""
