"""The law of the limits: no window ever holds more than its limit, and what was taken is neither lost nor doubled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openai_gateway.protection.limits import Account, Book
from openai_gateway.protection.refusals import OverLimit, QuotaSpent
from openai_gateway.protection.settings import Limits
from openai_gateway.protection.window import Window
from python_llm.errors import InvalidRequest

STEPS = st.lists(
    st.tuples(st.floats(0, 40, allow_subnormal=False), st.integers(1, 12)), min_size=1, max_size=120
)  # seconds that pass, and how much is wanted then


@given(STEPS, st.integers(1, 30))
def test_no_window_of_its_length_holds_more_than_the_limit(steps: list[tuple[float, int]], limit: int) -> None:
    window, now, taken = Window(limit, 60), 0.0, []
    for passed, amount in steps:
        now += passed
        if not window.wait(amount, now) and amount <= limit:
            window.take(amount, now)
            taken.append((now, amount))
    for end, _ in taken:
        assert sum(amount for when, amount in taken if end - 60 < when <= end) <= limit


@given(STEPS, st.integers(1, 30))
def test_it_waits_exactly_until_there_is_room(steps: list[tuple[float, int]], limit: int) -> None:
    window, now = Window(limit, 60), 0.0
    for passed, amount in steps:
        now += passed
        amount = min(amount, limit)
        wait = window.wait(amount, now)
        assert 0 <= wait <= 60.000001
        if wait:
            assert window.spent(now) + amount > limit
            now += wait * (1 + 1e-9) + 1e-9
        assert not window.wait(amount, now)
        window.take(amount, now)
        assert window.spent(now) <= limit


@given(STEPS, st.data())
def test_what_is_taken_and_corrected_is_what_is_spent_until_it_leaves(
    steps: list[tuple[float, int]], data: st.DataObject
) -> None:
    window, now, entries = Window(10**6, 60), 0.0, []
    for passed, amount in steps:
        now += passed / 100  # all of it stays within the window
        slot, used = window.take(amount, now), data.draw(st.integers(0, 24))
        window.correct(slot, used - amount, now)
        entries.append(used)
        assert window.spent(now) == sum(entries)
    assert window.spent(now + 60) == 0
    assert len(window._slots) == 0


@given(st.lists(st.floats(0, 3, allow_subnormal=False), min_size=300, max_size=300))
def test_a_window_is_bounded_however_much_passes(pauses: list[float]) -> None:
    window, now = Window(10**9, 60), 0.0
    for pause in pauses:
        now += pause
        window.take(1, now)
        assert len(window._slots) <= 102


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_requests_over_the_rate_are_told_when_to_come_again() -> None:
    clock = Clock()
    account = Account("key 'a'", Limits(requests_per_minute=2), clock)
    account.enter()
    clock.now = 10
    account.enter()
    with pytest.raises(OverLimit, match="2 requests a minute are its limit; retry after 50 s") as refused:
        account.enter()
    assert refused.value.retry_after == 50
    clock.now = 60
    account.enter()


def test_only_so_many_run_at_a_time() -> None:
    account = Account("key 'a'", Limits(max_running=1))
    account.enter()
    with pytest.raises(OverLimit, match="1 requests are running"):
        account.enter()
    account.leave()
    account.enter()


def test_tokens_are_reserved_and_what_was_not_used_comes_back() -> None:
    account = Account("key 'a'", Limits(tokens_per_minute=100), Clock())
    reserved = account.reserve(90)
    with pytest.raises(OverLimit, match="90 of its 100 tokens a minute are spent"):
        account.reserve(20)
    account.settle(reserved, 10)
    account.reserve(90)
    assert account.headers()["x-ratelimit-remaining-tokens"] == "0"
    assert account.headers()["x-ratelimit-reset-tokens"] == "1m0s"


def test_a_request_that_never_fits_is_the_callers_mistake() -> None:
    account = Account("key 'a'", Limits(tokens_per_minute=100), Clock())
    with pytest.raises(
        InvalidRequest, match=r"max_tokens: .* about 101 tokens, and 100 a minute are the limit of key 'a'"
    ):
        account.reserve(101)


def test_more_than_was_reserved_is_owed() -> None:
    clock = Clock()
    account = Account("key 'a'", Limits(tokens_per_minute=100), clock)
    account.settle(account.reserve(50), 250)
    with pytest.raises(OverLimit, match="250 of its 100"):
        account.enter()
    clock.now = 60
    account.enter()


def test_a_days_quota_is_told_apart() -> None:
    clock = Clock()
    account = Account("key 'a'", Limits(tokens_per_minute=1000, tokens_per_day=1500), clock)
    account.settle(account.reserve(1000), 1000)
    clock.now = 61
    account.settle(account.reserve(500), 500)
    clock.now = 200
    with pytest.raises(QuotaSpent, match="1500 of its 1500 tokens a day"):
        account.enter()


def test_an_account_is_its_keys_and_begins_anew_where_the_limits_changed() -> None:
    book = Book()
    first = book.account("a", Limits(max_running=1))
    assert book.account("a", Limits(max_running=1)) is first
    assert book.account("b", Limits(max_running=1)) is not first
    assert book.account("a", Limits(max_running=2)) is not first
