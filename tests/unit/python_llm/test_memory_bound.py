"""Requests are refused while memory is short, with the figures, and taken again when it is not."""

from __future__ import annotations

import pytest

from python_llm.errors import Unavailable
from python_llm.machine import Memory
from python_llm.memory_bound import MemoryBound


class Readings:
    """What the kernel says, and the time; set by the test."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.now = 0.0
        self.looks = 0

    def bound(self, most: int = 0) -> MemoryBound:
        return MemoryBound(most, resident=lambda: self._look().used, whole=self._look, clock=lambda: self.now)

    def _look(self) -> Memory:
        self.looks += 1
        return self.memory


def refusal(bound: MemoryBound) -> str:
    with pytest.raises(Unavailable) as caught:
        bound.check()
    assert caught.value.reason == "memory_pressure"
    return caught.value.text


@pytest.mark.parametrize(("of", "fine", "short"), [("container", 949, 950), ("machine", 979, 980)])
def test_by_itself_it_knows_the_containers_and_the_machines_memory(of: str, fine: int, short: int) -> None:
    Readings(Memory(fine, 1000, of)).bound().check()
    assert f"(the {of}'s)" in refusal(Readings(Memory(short, 1000, of)).bound())


def test_a_bound_of_its_own_holds_for_its_process() -> None:
    readings = Readings(Memory(7_000_000, 10_000_000, "machine"))
    readings.bound(7_000_001).check()
    assert refusal(readings.bound(7_000_000)).startswith("memory: the generator holds 7 MB of 7 MB (memory_bytes);")


def test_it_looks_now_and_then_and_takes_requests_again() -> None:
    readings = Readings(Memory(99, 100, "container"))
    bound = readings.bound()
    refusal(bound)
    refusal(bound)
    assert readings.looks == 1
    readings.memory = Memory(9, 100, "container")
    refusal(bound)
    readings.now += 1.0
    bound.check()
    assert readings.looks == 2


def test_a_kernel_that_says_nothing_refuses_nothing() -> None:
    Readings(Memory(0, 0, "machine")).bound().check()
