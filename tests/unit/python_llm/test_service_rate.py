"""A refused caller is told when a place should be free, and callers are told different times."""

from __future__ import annotations

import pytest

from python_llm.errors import Unavailable, parse_error
from python_llm.service_rate import ServiceRate


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def after_ends(count: int, each: float) -> tuple[ServiceRate, Clock]:
    clock = Clock()
    rate = ServiceRate(clock)
    for _ in range(count):
        rate.ended()
        clock.now += each
    return rate, clock


def test_before_anything_ended_it_is_about_a_second() -> None:
    assert ServiceRate().retry_after() == 1.0


@pytest.mark.parametrize("count", [1, 10, 200])
def test_callers_come_back_in_turn(count: int) -> None:
    rate, _ = after_ends(count, each=2.0)
    assert [rate.retry_after() for _ in range(3)] == pytest.approx([2.0, 4.0, 6.0])
    rate.ended()
    assert rate.retry_after() < 6.1  # the queue moved: one of the three has its place


def test_it_stays_within_bounds() -> None:
    assert after_ends(9, each=1e-6)[0].retry_after() == 0.1
    assert after_ends(9, each=1e6)[0].retry_after() == 60.0


def test_a_queue_that_stands_still_says_longer_and_longer() -> None:
    rate, clock = after_ends(4, each=1.0)
    first = rate.retry_after()
    clock.now += 40.0
    assert rate.retry_after() > first + 2.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("queue: 2 requests wait; ask again: retry after 1.2 s.", 1.2),
        ("queue: retry after 60 s", 60.0),
        ("server: it is draining", None),
        ("retry after a second", None),
    ],
)
def test_the_hint_survives_the_wire(text: str, seconds: float | None) -> None:
    parsed = parse_error(f"[StatusCode.X] in ensemble: {Unavailable('queue_full', text)}")
    assert isinstance(parsed, Unavailable)
    assert parsed.retry_after == seconds
