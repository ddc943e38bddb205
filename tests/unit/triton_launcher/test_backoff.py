from __future__ import annotations

from triton_launcher.backoff import Backoff


def test_the_first_two_restarts_are_immediate_then_the_delay_doubles_up_to_a_bound() -> None:
    backoff, now, delays = Backoff(), 1000.0, []
    for _ in range(10):
        delays.append(backoff.next_delay(now))
        now += delays[-1] + 5.0  # it lives five seconds
    assert delays == [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_minute_without_a_restart_forgets() -> None:
    backoff = Backoff()
    assert [backoff.next_delay(now) for now in (0.0, 10.0, 20.0)] == [0.0, 0.0, 1.0]
    assert backoff.next_delay(21.0 + 61.0) == 0.0


def test_deaths_an_hour_apart_never_wait() -> None:
    backoff = Backoff()
    assert {backoff.next_delay(hour * 3600.0) for hour in range(20)} == {0.0}
