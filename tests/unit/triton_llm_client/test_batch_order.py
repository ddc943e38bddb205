"""Order, bound and end of many workers, without a server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from python_llm.errors import EngineFailure, InvalidRequest
from triton_llm_client.batch import Outcome, in_order
from triton_llm_client.batch_line import Line
from triton_llm_client.batch_progress import Progress


def test_results_come_in_the_items_order_and_never_too_many_run() -> None:
    running, most = 0, 0

    async def work(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range((item * 7) % 5):  # later ones often end first
            await asyncio.sleep(0)
        running -= 1
        return item

    async def run() -> list[int]:
        return [result async for result in in_order(range(200), work, 4)]

    assert asyncio.run(run()) == list(range(200))
    assert most == 4


def test_results_that_wait_for_a_slow_one_are_bounded() -> None:
    async def run() -> int:
        started, release = 0, asyncio.Event()

        async def work(item: int) -> int:
            nonlocal started
            started += 1
            if item == 0:
                await release.wait()
            return item

        async with aclosing(in_order(range(10_000), work, 2)) as results:
            first = asyncio.ensure_future(anext(results))
            for _ in range(1000):
                await asyncio.sleep(0)
            held = started
            release.set()
            await first
        return held

    assert asyncio.run(run()) < 40


def test_an_error_comes_at_its_turn_and_the_rest_is_cancelled() -> None:
    begun, ended = set(), set()

    async def work(item: int) -> int:
        if item == 2:
            await asyncio.sleep(0)
            raise RuntimeError("two")
        if item > 2:
            begun.add(item)
            try:
                await asyncio.Event().wait()
            finally:
                ended.add(item)
        return item

    seen, error = asyncio.run(read_until_it_breaks(in_order(range(6), work, 4)))
    assert (seen, str(error)) == ([0, 1], "two")
    assert begun
    assert ended == begun


def test_items_that_break_are_told_after_those_before_them() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    async def same(item: int) -> int:
        return item

    seen, error = asyncio.run(read_until_it_breaks(in_order(items(), same, 4)))
    assert (seen, str(error)) == ([1], "disk")


async def read_until_it_breaks(results: AsyncGenerator[int, None]) -> tuple[list[int], Exception | None]:
    seen = []
    try:
        async for result in results:
            seen.append(result)
    except Exception as error:
        return seen, error
    return seen, None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_and_errors_by_line() -> None:
    stream = Terminal()
    progress = Progress(stream, "in.jsonl", 20, 4)
    progress.add(Outcome(Line.read(5, b'"a"'), {}, None, 3))
    for number in range(6, 18):
        progress.add(Outcome(Line.read(number, b"{"), {}, InvalidRequest("invalid_json", "line: broken.")))
    progress.close()
    said = stream.getvalue()
    assert "] 5/20, " in said
    assert "in.jsonl, line 6: [INVALID_ARG invalid_json]" in said
    assert "line 15: [INVALID_ARG invalid_json] line: broken.; further ones stand in the output" in said
    assert "line 16" not in said
    assert (progress.tally.answered, progress.tally.errors, progress.tally.exit_code) == (1, 12, 2)
    progress.add(Outcome(Line.read(18, b'"a"'), {}, EngineFailure("engine_failed", "broke.")))
    assert progress.tally.exit_code == 1
