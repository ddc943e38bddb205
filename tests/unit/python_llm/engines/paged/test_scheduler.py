"""The scheduler in a loop without a clock: everybody ends, nobody starves, blocks conserve, budgets hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.engine import Event, GenerateRequest
from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.prefill import share_prefill
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.scheduler import Scheduler, Slice
from python_llm.engines.paged.sequence import Sequence

SIZE = 4


def nobody(event: Event, /) -> None:
    """A sink that drops everything."""


@dataclass
class Loop:
    """Steps the scheduler as the engine does, and checks its laws at every step."""

    blocks: int
    max_running: int = 8
    max_num_tokens: int = 16
    block_size: int = SIZE
    prefix_cache: bool = True
    max_itl_seconds: float = 0.0
    ageing_seconds: float = 0.0
    finished: list[Sequence] = field(default_factory=list)
    steps: int = 0
    arrivals: int = 0

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.blocks)
        self.cache = PrefixCache(self.pool, self.block_size, enabled=self.prefix_cache)
        self.scheduler = Scheduler(
            self.pool,
            self.cache,
            block_size=self.block_size,
            max_running=self.max_running,
            max_num_tokens=self.max_num_tokens,
            max_itl_seconds=self.max_itl_seconds,
            ageing_seconds=self.ageing_seconds,
            clock=lambda: float(self.steps),  # a step a second
        )

    def add(self, prompt: list[int], max_tokens: int = 1, priority: int = 0, tenant: str = "") -> Sequence:
        request = GenerateRequest(str(self.arrivals), tuple(prompt), max_tokens, priority=priority, tenant=tenant)
        sequence = Sequence(request, nobody, self.arrivals)
        self.arrivals += 1
        self.scheduler.add(sequence)
        return sequence

    def step(self) -> list[Slice]:
        running = list(self.scheduler.running)
        plan = self.scheduler.schedule()
        self.steps += 1
        self._check(plan, running)
        for part in plan:
            before = part.sequence.computed
            part.sequence.computed += part.count
            self.cache.remember(part.sequence, before)
            if part.samples:
                part.sequence.tokens.append(part.sequence.arrival % 7)
                part.sequence.first_token_ns = part.sequence.first_token_ns or self.steps
                part.sequence.last_token_ns = self.steps
                if part.sequence.is_full:
                    self.scheduler.remove(part.sequence)
                    self.finished.append(part.sequence)
        self._check_blocks()
        return plan

    def _check(self, plan: list[Slice], before: list[Sequence]) -> None:
        scheduler = self.scheduler
        assert 0 < sum(part.count for part in plan) <= self.max_num_tokens
        assert len(scheduler.running) <= self.max_running
        assert len({id(part.sequence) for part in plan}) == len(plan)
        assert scheduler.running == sorted(scheduler.running, key=lambda s: s.rank)
        for part in plan:
            assert part.sequence in scheduler.running
            assert part.count >= 1
            assert part.samples == (part.count == part.sequence.remaining)
            assert len(part.sequence.blocks) == -(-(part.sequence.computed + part.count) // self.block_size)
        if before and before[0] not in scheduler.running:  # the first in rank keeps its blocks
            assert scheduler.running[0].rank < before[0].rank
        assert scheduler.running[0] in [part.sequence for part in plan], "the first in rank stood still"
        self._check_blocks()

    def _check_blocks(self) -> None:
        held = Counter(block for s in self.scheduler.running for block in s.blocks)
        assert self.pool.used_count == len(held)
        assert not any(self.pool.is_free(block) for block in held)
        assert all(not s.blocks for s in self.scheduler.waiting)

    def run(self, most_steps: int) -> None:
        while self.scheduler.everybody():
            assert self.steps < most_steps, "somebody starves"
            self.step()


_requests = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), min_size=1, max_size=30),  # two tokens: many equal prefixes
        st.integers(1, 20),
        st.integers(-1, 1),
        st.integers(0, 40),  # the step it arrives at
        st.sampled_from(["", "", "a", "b"]),  # tenant
    ),
    min_size=1,
    max_size=12,
)


@given(
    requests=_requests,
    spare=st.integers(0, 20),
    max_running=st.integers(1, 6),
    more_tokens=st.integers(0, 20),
    prefix_cache=st.booleans(),
    ageing=st.sampled_from([0.0, 3.0]),
)
def test_everybody_ends_under_any_load(
    requests: list[tuple[list[int], int, int, int, str]],
    spare: int,
    max_running: int,
    more_tokens: int,
    prefix_cache: bool,
    ageing: float,
) -> None:
    least = max(-(-(len(prompt) + count) // SIZE) for prompt, count, *_ in requests)  # as admission asks
    loop = Loop(least + spare, max_running, max_running + more_tokens, prefix_cache=prefix_cache, ageing_seconds=ageing)
    due = sorted(requests, key=lambda r: r[3])
    work = sum(len(prompt) + count for prompt, count, *_ in requests)
    while due or loop.scheduler.everybody():
        while due and (due[0][3] <= loop.steps or not loop.scheduler.everybody()):
            prompt, count, priority, _, tenant = due.pop(0)
            loop.add(prompt, count, priority, tenant)
        loop.step()
        assert loop.steps <= 40 + work * len(requests), "somebody starves"
    assert len(loop.finished) == len(requests)
    assert all(s.output_count == s.request.max_tokens for s in loop.finished)
    assert loop.pool.used_count == 0


@given(requests=_requests, data=st.data())
def test_leaving_at_any_moment_frees_the_blocks(
    requests: list[tuple[list[int], int, int, int, str]], data: st.DataObject
) -> None:
    loop = Loop(20)
    sequences = [loop.add(prompt, count, priority, tenant) for prompt, count, priority, _, tenant in requests]
    for _ in range(data.draw(st.integers(0, 10))):
        if loop.scheduler.everybody():
            loop.step()
    left = [s for s in sequences if s not in loop.finished and data.draw(st.booleans())]
    for sequence in left:
        loop.scheduler.remove(sequence)
        assert not sequence.blocks
        loop._check_blocks()
    loop.run(5000)
    assert len(loop.finished) + len(left) == len(sequences)
    assert loop.pool.used_count == 0


@pytest.mark.parametrize("arrival", [0, 1, 2, 5, 12, 20, 31])
def test_a_short_prompt_passes_eight_long_ones(arrival: int) -> None:
    loop = Loop(1000, max_running=64, max_num_tokens=256, block_size=32)
    long = [loop.add([n] * 1024, 4) for n in range(8)]
    for _ in range(arrival):
        loop.step()
    short = loop.add([9] * 16, 4)
    steps = 0
    while short.output_count == 0:
        left = {s.arrival: s.remaining for s in long if s not in loop.finished and s.remaining > 1}
        granted = {part.sequence.arrival: part.count for part in loop.step()}
        steps += 1
        if left:
            head = min(left)
            assert granted[head] >= min(left[head], 120)  # half of 256, less the decoding ones' tokens
    print(f"a 16-token prompt arriving at step {arrival} has its first token after {steps} step(s)")
    assert steps <= 3
    loop.run(100)
    assert all(s.output_count == 4 for s in [*long, short])


def test_a_stream_of_short_prompts_does_not_stop_a_long_one() -> None:
    loop = Loop(2000, max_running=64, max_num_tokens=256, block_size=32)
    long = loop.add([1] * 1024)
    steps = 0
    while long.output_count == 0:
        for _ in range(16):
            loop.add([loop.arrivals % 97 + 2] * 16)  # 256 tokens of short prompts at every step
        loop.step()
        steps += 1
        assert steps <= 10  # 1,024 tokens at half of 256 a step, and a little for the edges


def test_the_lower_priority_number_runs_first() -> None:
    loop = Loop(100, max_running=1)
    numbers = [1, -1, 0, -1]
    sequences = [loop.add([n + 5] * 6, 2, number) for n, number in enumerate(numbers)]
    loop.run(100)
    assert [sequences.index(s) for s in loop.finished] == [1, 3, 2, 0]


def test_the_first_of_equals_is_admitted_first() -> None:
    loop = Loop(100, max_running=2)
    sequences = [loop.add([n] * 8, 3) for n in range(5)]
    loop.step()
    assert loop.scheduler.running == sequences[:2]


def test_when_blocks_run_out_the_last_in_rank_waits_and_is_not_lost() -> None:
    loop = Loop(8, prefix_cache=False)
    first, second, third = (loop.add([n] * 8, 20 - 8 * (n > 0)) for n in range(3))
    stood_back: set[int] = set()
    while loop.scheduler.everybody():
        loop.step()
        stood_back |= {s.arrival for s in loop.scheduler.waiting if s.preempted}
    assert loop.scheduler.preemptions > 0
    assert third.arrival in stood_back
    assert first.arrival not in stood_back
    assert [s.output_count for s in (first, second, third)] == [20, 12, 12]


def test_the_first_in_rank_is_not_held_up_by_the_growth_of_others() -> None:
    loop = Loop(4, max_running=2, max_num_tokens=2, prefix_cache=False)
    first = loop.add([0] * 10)
    loop.step()
    loop.add([0] * 3, 10)  # its output grows while the first is still computing its prompt
    loop.run(200)  # every step checks that the first in rank moves
    assert loop.finished[0] is first


def test_a_prompt_without_room_waits_instead_of_being_preempted() -> None:
    loop = Loop(4, prefix_cache=False)
    sequences = [loop.add([n] * 12, 4) for n in range(3)]
    loop.run(100)
    assert loop.scheduler.preemptions == 0
    assert loop.finished == sequences


def test_a_shared_prefix_is_computed_once() -> None:
    loop = Loop(100, max_num_tokens=64)
    prompt = [5] * 33
    loop.add(prompt)
    loop.run(10)
    other = loop.add(prompt)
    plan = loop.step()
    assert [part.count for part in plan] == [1]
    assert other.cached == 32


@given(
    remaining=st.lists(st.integers(2, 2000), max_size=12),
    priorities=st.lists(st.integers(-1, 1), min_size=12, max_size=12),
    budget=st.integers(0, 512),
)
def test_prefill_is_shared_whole_and_fairly(remaining: list[int], priorities: list[int], budget: int) -> None:
    loop = Loop(1)
    for count, priority in zip(remaining, priorities, strict=False):
        loop.add([0] * count, priority=priority)
    prompts = list(loop.scheduler.waiting)
    shares = share_prefill(prompts, budget)
    granted = {s.arrival: count for s, count in shares}
    assert len(granted) == len(shares)
    assert sum(granted.values()) == min(budget, sum(remaining))  # nothing of the budget is left lying
    assert all(1 <= count <= s.remaining for s, count in shares)
    if prompts and budget:
        head = prompts[0]
        assert granted[head.arrival] >= min(head.remaining, max(1, budget // 2))
