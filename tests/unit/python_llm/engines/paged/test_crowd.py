"""One tenant crowds the engine, another comes and goes: what the other waits for, in modelled time."""

from __future__ import annotations

from itertools import count

import pytest

from python_llm.engines.paged.scheduler import Slice
from python_llm.engines.paged.tenant_shares import TenantShares
from tests.unit.python_llm.engines.paged.test_scheduler import Loop

_PAIRS = 40  # requests of A, two by two


def milliseconds(plan: list[Slice]) -> float:
    """A step of SmolLM2-135M INT8 on two cores, as measured over 1 to 62 decoding and 0 to 256 prompt tokens."""
    prompts = sum(part.count for part in plan if part.count > 1)
    return 9.0 + 1.07 * sum(part.count == 1 for part in plan) + 0.39 * prompts


class Tenants:
    """Tenant B keeps ``crowd`` long requests in flight; A sends pairs, each when the last one has ended."""

    def __init__(self, crowd: int) -> None:
        self.loop = Loop(2452, max_running=64, max_num_tokens=256, block_size=32)
        self.now = 0.0
        self.waits: list[float] = []
        self._crowd = crowd
        self._numbers = count()
        for _ in range(400):
            self.step()

    def step(self) -> list[Slice]:
        while sum(s.request.tenant == "B" for s in self.loop.scheduler.everybody()) < self._crowd:
            self.loop.add([next(self._numbers) + 1] * 512, 256, tenant="B")
        plan = self.loop.step()
        self.now += milliseconds(plan)
        return plan

    def send_pair(self) -> None:
        """A pair comes when a step has just begun, and is answered."""
        begin = self.now
        self.step()
        pair = [self.loop.add([-1 - next(self._numbers)] * 128, 16, tenant="A") for _ in range(2)]
        waiting = list(pair)
        while not all(sequence in self.loop.finished for sequence in pair):
            self.step()
            told = [sequence for sequence in waiting if sequence.output_count]
            self.waits += [self.now - begin for _ in told]
            waiting = [sequence for sequence in waiting if sequence not in told]

    def p95(self) -> float:
        for _ in range(_PAIRS):
            self.send_pair()
        return sorted(self.waits)[int(0.95 * (len(self.waits) - 1))]


@pytest.fixture(scope="module")
def beside_two() -> float:
    return Tenants(2).p95()


@pytest.mark.parametrize("crowd", [16, 32, 64, 100])
def test_a_crowd_of_long_requests_delays_another_tenant_by_less_than_half(crowd: int, beside_two: float) -> None:
    assert Tenants(crowd).p95() <= 1.5 * beside_two


def test_a_crowd_has_small_steps_while_another_is_expected_and_full_ones_later() -> None:
    tenants = Tenants(64)

    def biggest_of(steps: int) -> int:
        return max(sum(part.count for part in tenants.step()) for _ in range(steps))

    assert biggest_of(300) > 200  # nobody else was ever here
    tenants.send_pair()
    assert biggest_of(8) <= 51  # seconds: the loop's clock counts steps
    assert biggest_of(300) > 200


def test_a_crowd_in_small_steps_starves_none_of_its_own() -> None:
    tenants = Tenants(64)
    for _ in range(30):
        tenants.send_pair()
    seen = [s.last_token_ns for s in tenants.loop.scheduler.running if s.first_token_ns]
    assert tenants.loop.steps - min(seen) <= 40


def test_who_left_is_expected_for_a_while() -> None:
    now = [0.0]
    shares = TenantShares(clock=lambda: now[0])
    shares.enter("B")
    assert not shares.several
    shares.enter("A")
    assert shares.several
    shares.leave("A")
    now[0] = 9.0
    assert shares.several
    shares.leave("B")
    shares.enter("B")  # it came back: it is not somebody else
    now[0] = 11.0
    assert not shares.several
