"""Several streams read as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

__all__ = ["side_by_side"]

T = TypeVar("T")

_AT_ONCE = 16  # more would fill the servers' queues with one request
_READ_AHEAD = 64


async def side_by_side(
    streams: Sequence[AsyncGenerator[T, None]], *, at_once: int = _AT_ONCE
) -> AsyncGenerator[tuple[int, T], None]:
    """Yield (which stream, item) as they come, of ``at_once`` streams at a time, in their order.

    The first failure ends all; leaving early closes them.
    """
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for item in only:
                yield 0, item
        return
    places, room = asyncio.Semaphore(at_once), asyncio.Semaphore(_READ_AHEAD)
    items: asyncio.Queue[tuple[int, T] | None] = asyncio.Queue()  # bounded by `room`: an end never waits

    async def read(number: int) -> None:
        try:
            async with places, aclosing(streams[number]) as stream:
                async for item in stream:
                    await room.acquire()
                    items.put_nowait((number, item))
        finally:
            items.put_nowait(None)

    tasks = [asyncio.create_task(read(number)) for number in range(len(streams))]
    try:
        ended = 0
        while ended < len(tasks):
            found = await items.get()
            if found is not None:
                room.release()
                yield found
                continue
            ended += 1
            for task in tasks:
                if task.done():
                    task.result()
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
