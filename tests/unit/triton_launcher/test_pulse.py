"""What is life and what is death, by an injected clock: stall after 30 s, silence after 20 s."""

from __future__ import annotations

import pytest

from python_llm.errors import EngineFailure, InvalidRequest, ServeError, Unavailable
from triton_launcher.control import Status
from triton_launcher.pulse import Pulse, PulseLimits


def status(
    *, steps: int = 0, running: int = 0, waiting: int = 0, healthy: bool = True, draining: bool = False
) -> Status:
    return Status(healthy=healthy, draining=draining, running=running, waiting=waiting, steps=steps)


@pytest.fixture
def pulse() -> Pulse:
    return Pulse(PulseLimits(stall_seconds=30.0, control_seconds=20.0), 0.0)


def test_an_idle_engine_lives_without_steps(pulse: Pulse) -> None:
    for now in range(0, 300, 5):
        pulse.status_answered(status(steps=7), now)
        assert pulse.cause_of_death(now) is None


def test_an_advancing_counter_is_life_whatever_waits(pulse: Pulse) -> None:
    for now in range(0, 300, 5):
        pulse.status_answered(status(steps=now, running=8, waiting=200), now)
        assert pulse.cause_of_death(now) is None
    assert pulse.stepping


def test_a_still_counter_with_work_is_death_after_the_stall_time(pulse: Pulse) -> None:
    causes = []
    for now in range(0, 40, 5):
        pulse.status_answered(status(steps=7, running=2, waiting=1), now)
        causes.append(pulse.cause_of_death(now))
    assert causes[:7] == [None] * 7
    assert causes[7] == "no step for 35 s with 3 requests waiting"
    assert not pulse.stepping


@pytest.mark.parametrize("reason", ["queue_full", "memory_pressure"])
def test_being_too_busy_is_life(pulse: Pulse, reason: str) -> None:
    for now in range(0, 100, 5):
        pulse.status_answered(status(steps=7, running=1, waiting=256), now)
        pulse.probe_answered(Unavailable(reason, "full"), now)
        assert pulse.cause_of_death(now) is None


def test_what_refuses_lives_and_is_known_to_refuse(pulse: Pulse) -> None:
    short = Status(healthy=True, draining=False, running=0, waiting=0, steps=7, refuses="memory: short")
    pulse.status_answered(short, 1.0)
    assert (pulse.refuses, pulse.cause_of_death(2.0)) == ("memory: short", None)
    pulse.status_answered(status(), 3.0)
    assert pulse.refuses == ""


def test_no_control_answer_is_death(pulse: Pulse) -> None:
    pulse.status_answered(status(), 1.0)
    pulse.status_failed(RuntimeError("DEADLINE_EXCEEDED"))
    assert pulse.cause_of_death(20.0) is None
    assert pulse.cause_of_death(22.0) == "no control answer for 21 s (last: DEADLINE_EXCEEDED)"


def test_the_launchers_own_suspension_is_excused(pulse: Pulse) -> None:
    pulse.status_answered(status(steps=7, running=1), 1.0)
    pulse.excuse(100.0)
    assert pulse.cause_of_death(101.0) is None
    assert pulse.cause_of_death(122.0) is not None


def test_a_generator_that_never_answers_is_dead_too(pulse: Pulse) -> None:
    assert pulse.cause_of_death(20.5) is not None


def test_a_probe_without_a_token_is_death_even_if_the_generator_counts_no_request(pulse: Pulse) -> None:
    pulse.probe_sent()
    for now in range(0, 40, 5):
        pulse.status_answered(status(steps=7), now)
    assert pulse.cause_of_death(35.0) == "no step for 35 s with 1 requests waiting"
    pulse.probe_answered(None, 36.0)
    assert pulse.cause_of_death(36.0) is None


def test_a_lost_probe_alone_is_no_death(pulse: Pulse) -> None:
    pulse.probe_sent()
    pulse.probe_lost()
    pulse.status_answered(status(), 35.0)
    assert pulse.cause_of_death(35.0) is None


def test_unhealthy_twice_in_a_row_is_death_and_once_is_not(pulse: Pulse) -> None:
    for healthy in (False, True, False):
        pulse.status_answered(status(healthy=healthy), 1.0)
        assert pulse.cause_of_death(1.0) is None
    pulse.status_answered(status(healthy=False), 2.0)
    assert pulse.cause_of_death(2.0) == "its engine says it is not healthy"


def test_a_retired_engine_is_not_judged_by_its_health(pulse: Pulse) -> None:
    for _ in range(3):
        pulse.status_answered(status(healthy=False, draining=True), 1.0)
    assert pulse.cause_of_death(1.0) is None


@pytest.mark.parametrize(
    ("error", "dead"),
    [(EngineFailure("engine_failed", "broken"), True), (InvalidRequest("bad", "x"), False), (None, False)],
)
def test_two_probes_in_a_row_that_break_the_engine_are_death(
    pulse: Pulse, error: ServeError | None, dead: bool
) -> None:
    pulse.probe_answered(error, 1.0)
    assert pulse.cause_of_death(1.0) is None
    pulse.probe_answered(error, 2.0)
    assert (pulse.cause_of_death(2.0) is not None) == dead
