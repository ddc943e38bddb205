"""Several streams as one, in the order in which their chunks come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from triton_llm_client import Chunk

__all__ = ["merged"]

_AHEAD = 64  # chunks that wait for a slow reader


async def merged(streams: Sequence[AsyncGenerator[Chunk, None]]) -> AsyncGenerator[Chunk, None]:
    """Each stream's own chunks stay in order. The first error ends all, and so does leaving."""
    waiting: asyncio.Queue[Chunk | None] = asyncio.Queue()
    room = asyncio.Semaphore(_AHEAD)

    async def read(stream: AsyncGenerator[Chunk, None]) -> None:
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                await room.acquire()
                waiting.put_nowait(chunk)

    tasks = [asyncio.create_task(read(stream)) for stream in streams]
    whole = asyncio.gather(*tasks)
    whole.add_done_callback(lambda _: waiting.put_nowait(None))
    try:
        while (chunk := await waiting.get()) is not None:
            room.release()
            yield chunk
        await whole
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(whole, *tasks, return_exceptions=True)
