"""Reads a stream of chunks a little ahead, so that waiting for the next one can be broken off from outside."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

from triton_llm_client import Chunk

__all__ = ["Reading"]

_AHEAD = 64  # chunks that wait for a slow reader


class Reading:
    """``next`` gives the chunks in order. ``interrupt`` ends it with an error once what came before is read."""

    def __init__(self, chunks: AsyncGenerator[Chunk, None]) -> None:
        self._chunks = chunks
        self._waiting: deque[Chunk] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._cause: Exception | None = None
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(lambda _: self._news.set())

    def interrupt(self, cause: Exception) -> None:
        """Leave the stream, which cancels its request at the server."""
        if not self._task.done():
            self._cause = cause
            self._task.cancel()

    async def next(self) -> Chunk | None:
        """The next chunk, or None at the end; raises what the stream raised, or the cause of its interruption."""
        while not self._waiting:
            if self._task.done():
                self._check_end()
                return None
            self._news.clear()
            await self._news.wait()
        self._room.set()
        return self._waiting.popleft()

    async def close(self) -> None:
        """Leave the stream and wait until it is left."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # seen: nobody waits for it any more

    async def _read(self) -> None:
        async with aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                self._waiting.append(chunk)
                self._news.set()
                while len(self._waiting) >= _AHEAD:
                    self._room.clear()
                    await self._room.wait()

    def _check_end(self) -> None:
        if self._task.cancelled() and self._cause is not None:
            raise self._cause
        self._task.result()
