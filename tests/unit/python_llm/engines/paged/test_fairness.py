"""Who waits for whom: tenants share by tokens, priorities rise while they wait, streams bound the size of steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.engines.paged.prefill import ItlGoal
from python_llm.engines.paged.scheduler import Scheduler
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.tenant_shares import TenantShares, level_out
from python_llm.engines.paged.waiting import WaitingQueue
from tests.unit.python_llm.engines.paged.test_scheduler import Loop


def first_token_after(loop: Loop, sequence: Sequence) -> int:
    begin = loop.steps
    while sequence.output_count == 0:
        loop.step()
        assert loop.steps < 5000
    return loop.steps - begin


@pytest.mark.parametrize("others", [2, 64])
def test_sixty_four_long_requests_of_one_tenant_do_not_hold_up_another(others: int) -> None:
    """The first token comes after as many steps beside 64 requests of B as beside 2."""
    loop = Loop(2000, max_running=16, max_num_tokens=64, block_size=16)
    for number in range(others):
        loop.add([number % 7] * 200, 100, tenant="B")
    for _ in range(30):
        loop.step()
    waits = [first_token_after(loop, loop.add([9] * 40, 4, tenant="A")) for _ in range(5)]
    assert max(waits) <= 2
    loop.run(20_000)


def test_tokens_are_shared_by_tenant_and_not_by_request() -> None:
    loop = Loop(4000, max_running=8, max_num_tokens=32, block_size=16, prefix_cache=False)
    for number in range(60):
        loop.add([1] * 50, 20, tenant="B" if number % 6 else "A")
    while sum(s.request.tenant == "A" for s in loop.finished) < 8:
        loop.step()
    done = {tenant: sum(s.request.tenant == tenant for s in loop.finished) for tenant in "AB"}
    assert 0.5 <= done["A"] / done["B"] <= 2.0
    loop.run(20_000)


def test_a_tenant_alone_has_everything() -> None:
    loop = Loop(4000, max_running=8, block_size=16, max_num_tokens=64)
    for _ in range(20):
        loop.add([1] * 20, 5, tenant="B")
    loop.step()
    assert len(loop.scheduler.running) == 8
    assert loop.scheduler.preemptions == 0


def test_who_comes_back_neither_saved_up_nor_pays() -> None:
    shares = TenantShares()
    shares.enter("worker")
    shares.charge("worker", 1000)
    shares.enter("newcomer")
    assert shares.served("newcomer") == 1000
    shares.charge("newcomer", 50)
    shares.leave("newcomer")
    shares.charge("worker", 5000)
    shares.enter("newcomer")
    assert shares.served("newcomer") == 6000
    shares.leave("worker")
    shares.enter("worker")  # it cannot wash its account by leaving
    assert shares.served("worker") == 6000


def test_an_occasional_tenant_has_a_credit_and_no_more() -> None:
    shares = TenantShares(credit=100)
    shares.enter("worker")
    shares.charge("worker", 1000)
    for _ in range(3):  # coming and going does not renew it
        shares.enter("guest")
        assert shares.served("guest") in (900, 950)
        if shares.served("guest") == 900:
            shares.charge("guest", 50)
        shares.leave("guest")
    shares.charge("worker", 1000)
    shares.enter("guest")
    assert shares.served("guest") == 1900


def test_absent_tenants_are_forgotten_in_the_end() -> None:
    shares = TenantShares()
    for number in range(3000):
        shares.enter(str(number))
        shares.charge(str(number), 1)
        shares.leave(str(number))
    assert len(shares._served) <= 1025
    assert shares.count == 0


def test_a_priority_rises_while_it_waits() -> None:
    """A stream of better requests does not keep a worse one out for ever; without ageing it would."""
    for ageing, bound in ((5.0, 60), (0.0, None)):
        loop = Loop(100, max_running=1, ageing_seconds=ageing)
        loop.add([1] * 4, 4, priority=0)
        worse = loop.add([2] * 4, 4, priority=5)
        for _ in range(60):
            if len(loop.scheduler.waiting) < 2:
                loop.add([1] * 4, 4, priority=0)
            loop.step()
        assert (worse in loop.finished) == (bound is not None)


def test_a_better_priority_takes_a_place_and_the_loser_comes_back() -> None:
    loop = Loop(100, max_running=2)
    ordinary = [loop.add([n] * 4, 30) for n in range(2)]
    loop.step()
    urgent = loop.add([9] * 4, 3, priority=-1)
    assert first_token_after(loop, urgent) == 1
    assert loop.scheduler.preemptions == 1
    loop.run(200)
    assert loop.finished[0] is urgent
    assert {s.output_count for s in ordinary} == {30}


@given(
    wants=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 300), min_size=1),
    served=st.lists(st.integers(0, 200), min_size=4, max_size=4),
    budget=st.integers(0, 256),
)
def test_a_budget_is_shared_whole_and_levels_the_tenants(wants: dict[str, int], served: list[int], budget: int) -> None:
    before = dict(zip("abcd", served, strict=True))
    grants = level_out(wants, budget, before.__getitem__)
    assert sum(grants.values()) == min(budget, sum(wants.values()))
    assert all(0 <= grants[tenant] <= wants[tenant] for tenant in wants)
    after = {tenant: before[tenant] + grants[tenant] for tenant in wants}
    for tenant in wants:  # nobody got anything while a less served one wanted more
        for other in wants:
            if grants[tenant] and grants[other] < wants[other]:
                assert after[tenant] <= after[other] + 1


def test_steps_shrink_to_the_goal_while_streams_run_and_grow_again() -> None:
    goal = ItlGoal(0.1, 256)
    assert goal.budget(0) == goal.budget(4) == 256
    for _ in range(20):
        tokens = goal.budget(4)
        goal.learn(4, tokens, tokens * 0.001)  # a millisecond a token
    assert 80 <= goal.budget(4) <= 111
    assert goal.budget(0) == 256  # nobody waits
    for _ in range(40):
        goal.learn(4, goal.budget(4), 0.01)
    assert goal.budget(4) == 256
    for _ in range(10):
        goal.learn(4, goal.budget(4), 100.0)
    assert goal.budget(4) == 4 + 16  # a prompt always moves
    for _ in range(10):
        goal.learn(4, 4, 0.01)  # no prompt: nothing to learn
    assert goal.budget(4) == 4 + 16


def test_without_a_goal_nothing_shrinks() -> None:
    goal = ItlGoal(0.0, 256)
    goal.learn(4, 256, 100.0)
    assert goal.budget(4) == 256


def test_the_queue_says_who_waits_in_rank() -> None:
    shares = TenantShares()
    queue = WaitingQueue(shares, clock=lambda: 0.0)
    loop = Loop(1)
    late, early = loop.add([1], priority=1), loop.add([1], priority=0)
    for sequence in (late, early):
        shares.enter("")
        queue.add(sequence)
    assert [*queue] == [early, late]
    assert queue.first() is early
    queue.remove(early)
    assert early not in queue
    assert len(queue) == 1
    assert isinstance(loop.scheduler, Scheduler)
