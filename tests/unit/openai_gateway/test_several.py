"""Streams read side by side: all of them, so many at a time, and left at once however much is read ahead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from openai_gateway.several import side_by_side
from tests.unit.openai_gateway.api import run


class Streams:
    """``make`` begins one of ``count`` numbers; how many run now, ran at most at once, and were closed is counted."""

    def __init__(self) -> None:
        self.running = self.most = self.closed = 0

    async def make(self, count: int, *, fails: bool = False) -> AsyncGenerator[int, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for number in range(count):
                await asyncio.sleep(0)
                yield number
            if fails:
                raise ValueError("torn")
        finally:
            self.running -= 1
            self.closed += 1


@pytest.mark.parametrize("count", [1, 2, 40])
def test_each_streams_items_come_in_its_order(count: int) -> None:
    async def work() -> None:
        streams = Streams()
        found: dict[int, list[int]] = {}
        async for number, item in side_by_side([streams.make(9) for _ in range(count)], at_once=4):
            found.setdefault(number, []).append(item)
        assert found == {number: list(range(9)) for number in range(count)}
        assert streams.most == min(count, 4)
        assert streams.closed == count

    run(work)


def test_who_leaves_closes_all_even_when_much_was_read_ahead() -> None:
    async def work() -> None:
        streams = Streams()
        async with aclosing(side_by_side([streams.make(10_000) for _ in range(20)])) as items:
            async for _ in items:
                for _ in range(1_000):
                    await asyncio.sleep(0)  # nobody takes what comes: it is read ahead to the bound
                break
        assert streams.running == 0

    run(work)


def test_the_first_failure_ends_all() -> None:
    async def work() -> None:
        streams = Streams()
        with pytest.raises(ValueError, match="torn"):
            async for _ in side_by_side([streams.make(10_000), streams.make(3, fails=True)]):
                pass
        assert streams.running == 0

    run(work)
