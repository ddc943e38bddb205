"""The paged engine over a runner whose tokens betray any wrong block, against a plain loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import Collector
from fake_runner import FakeRunner, fake_logits
from python_llm.engine import (
    Event,
    Failed,
    Finished,
    FinishReason,
    GenerateRequest,
    PromptLogProbs,
    SamplingParams,
    TopLogProbs,
)
from python_llm.engines.paged.engine import PagedEngine
from python_llm.engines.paged.log_probs import token_log_prob
from python_llm.engines.paged.sampler import Draw, sample
from python_llm.engines.paged.sequence import Sequence as Running
from python_llm.engines.paged.speculation import Speculation, StepCost
from python_llm.settings import ServingConfig
from python_llm.trace import Trace

VOCABULARY = 32
CONTEXT = 200


class Outcome(NamedTuple):
    ids: list[int]
    reason: FinishReason
    stop_id: int | None = None
    log_probs: Sequence[float] = ()
    top: Sequence[TopLogProbs] = ()


def reference(request: GenerateRequest, index: int = 0) -> Outcome:
    """New tokens and the reason, one token after another from the whole context."""
    tokens = [*request.prompt_ids, *request.resume_ids]
    made = len(request.resume_ids)
    log_probs: list[float] = []
    top: list[TopLogProbs] = []
    begin, ends = len(tokens), request.end_ids | request.stop_ids
    while made < request.max_tokens:
        draw = Draw(
            request.sampling,
            index,
            len(tokens),
            tokens=tokens,
            prompt_count=len(request.prompt_ids),
            forbidden=ends if made < request.min_tokens else frozenset(),
            log_probs=request.log_probs,
            top_log_probs=request.top_log_probs,
        )
        choice = sample(fake_logits(tokens, VOCABULARY)[None], [draw])[0]
        if choice.id in ends:
            return Outcome(tokens[begin:], "stop", choice.id, log_probs, top)
        tokens.append(choice.id)
        if choice.log_prob is not None:
            log_probs.append(choice.log_prob)
            top.append(choice.top)
        made += 1
    return Outcome(tokens[begin:], "length", None, log_probs, top)


def prompt_reference(request: GenerateRequest) -> PromptLogProbs:
    prompt = request.prompt_ids
    found = [
        token_log_prob(fake_logits(prompt[:end], VOCABULARY), prompt[end], request.top_log_probs)
        for end in range(1, len(prompt))
    ]
    return PromptLogProbs(tuple(p for p, _ in found), tuple(t for _, t in found) if request.top_log_probs else ())


class FixedPrice(StepCost):
    """Of a token more in a step, whatever the clock says."""

    def __init__(self, price: float) -> None:
        super().__init__()
        self._price = price

    def price(self, batch: int) -> float:
        return self._price


class Guesser:
    """Knows what a greedy sequence says next, and lies at every ``lies``-th token; a sampled one it misjudges."""

    def __init__(self, lies: int) -> None:
        self._lies = lies

    def propose(self, wanted: dict[Running, int]) -> dict[Running, list[int]]:
        return {sequence: self._guess(list(sequence.tokens), count) for sequence, count in wanted.items()}

    def forget(self, sequence: Running) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is kept."""

    def _guess(self, tokens: list[int], count: int) -> list[int]:
        begin = len(tokens)
        for _ in range(count):
            lies = len(tokens) % self._lies == 0
            tokens.append(7 if lies else int(fake_logits(tokens, VOCABULARY).argmax()))
        return tokens[begin:]


@contextmanager
def engine_over(runner: FakeRunner, speculation: Speculation | None = None, **serving: Any) -> Iterator[PagedEngine]:
    """An engine that is closed afterwards, and must then be empty."""
    options: dict[str, Any] = {"max_running": 8, "max_num_tokens": 16, **serving}
    engine = PagedEngine(runner, ServingConfig(**options), context_length=CONTEXT, speculation=speculation)
    try:
        yield engine
    finally:
        engine.close()
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.blocks_used) == (0, 0, 0)


def at_step(runner: FakeRunner, number: int, action: Callable[[], None]) -> None:
    """Do something on the engine's thread when that step begins."""
    earlier = runner.before_step

    def both(step: int) -> None:
        earlier(step)
        if step == number:
            action()

    runner.before_step = both


def check(request: GenerateRequest, sink: Collector, *, cancellable: bool = False) -> None:
    sink.finished()
    for index in range(request.first_index, request.first_index + request.sequence_count):
        expected, end = reference(request, index), sink.ends[index]
        if cancellable and end.reason == "cancelled":
            got = sink.streams[index]
            assert (got, end.stop_id) == (expected.ids[: len(got)], None)
            continue
        assert (sink.streams[index], end.reason, end.stop_id) == expected[:3]
        assert sink.log_probs[index] == pytest.approx(expected.log_probs)
        assert [[i for i, _ in each] for each in sink.top_log_probs[index]] == [
            [i for i, _ in each] for each in expected.top
        ]
        usage = end.usage
        assert usage.prompt_tokens == len(request.prompt_ids)
        assert usage.output_tokens == len(request.resume_ids) + len(expected.ids)
        assert 0 <= usage.cached_prompt_tokens <= usage.prompt_tokens
        assert 0 < usage.first_scheduled_ns < usage.first_token_ns <= usage.last_token_ns or not request.max_tokens
    if request.prompt_log_probs and any(end.reason != "cancelled" for end in sink.ends.values()):
        wanted = prompt_reference(request)
        assert sink.prompt is not None
        assert sink.prompt.log_probs == pytest.approx(wanted.log_probs)
        assert len(sink.prompt.top_log_probs) == len(wanted.top_log_probs)
    elif not request.prompt_log_probs:
        assert sink.prompt is None


_samplings = st.one_of(
    st.just(SamplingParams()),
    st.builds(
        SamplingParams,
        temperature=st.floats(0.3, 2.0),
        top_k=st.integers(0, 10),
        top_p=st.floats(0.2, 1.0),
        seed=st.integers(0, 2**64 - 1),
        repetition_penalty=st.sampled_from([1.0, 1.3]),
        presence_penalty=st.sampled_from([0.0, 0.7]),
        frequency_penalty=st.sampled_from([0.0, -0.4]),
        no_repeat_ngram_size=st.sampled_from([0, 2]),
        logit_bias=st.sampled_from([(), ((3, 2.0), (9, -5.0))]),
        bad_words=st.sampled_from([(), ((1,), (4, 5))]),
    ),
)


@st.composite
def requests_of(draw: st.DrawFn, request_id: str) -> GenerateRequest:
    max_tokens = draw(st.integers(1, 20))
    sequences = draw(st.sampled_from([1, 1, 1, 2, 4]))
    return GenerateRequest(
        request_id=request_id,
        prompt_ids=tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=24))),  # many equal prefixes
        max_tokens=max_tokens,
        min_tokens=draw(st.integers(0, max_tokens)),
        resume_ids=tuple(draw(st.lists(st.integers(0, 31), max_size=max_tokens - 1 if sequences == 1 else 0))),
        sampling=draw(_samplings),
        end_ids=frozenset(draw(st.lists(st.integers(0, 31), max_size=6))),
        stop_ids=frozenset(draw(st.lists(st.integers(0, 31), max_size=2))),
        priority=draw(st.integers(-1, 1)),
        sequence_count=sequences,
        first_index=draw(st.integers(0, 2)),
        log_probs=draw(st.booleans()),
        top_log_probs=draw(st.integers(0, 3)),
        prompt_log_probs=draw(st.sampled_from([False, False, True])),
        cache_salt=draw(st.sampled_from(["", "", "a"])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[GenerateRequest]:
    return [draw(requests_of(str(number))) for number in range(draw(st.integers(1, 8)))]


def least_blocks(requests: list[GenerateRequest], block_size: int) -> int:
    return max(-(-(len(r.prompt_ids) + r.max_tokens) // block_size) for r in requests)


@given(
    requests=workloads(),
    block_size=st.integers(1, 6),
    spare=st.integers(0, 30),
    max_running=st.integers(1, 8),
    more_tokens=st.integers(0, 24),
    prefix_cache=st.booleans(),
    arrivals=st.lists(st.integers(1, 12), min_size=8, max_size=8),
    lies=st.sampled_from([0, 1, 3, 1000]),
)
def test_whatever_the_batch_the_tokens_are_those_of_the_plain_loop(
    requests: list[GenerateRequest],
    block_size: int,
    spare: int,
    max_running: int,
    more_tokens: int,
    prefix_cache: bool,
    arrivals: list[int],
    lies: int,
) -> None:
    """Random chunks, tiny pools, preemption, prefix hits, arrivals at any step, resumed tokens, priorities, guesses."""
    requests = [replace(r, sequence_count=min(r.sequence_count, max_running)) for r in requests]
    runner = FakeRunner(block_count=least_blocks(requests, block_size) + spare, block_size=block_size)
    serving: dict[str, Any] = {"max_running": max_running, "max_num_tokens": max_running + more_tokens}
    sinks = {r.request_id: Collector(r.sequence_count) for r in requests}
    submitted: set[str] = set()
    speculation = Speculation(Guesser(lies), FixedPrice(0.1)) if lies else None
    with engine_over(runner, speculation, prefix_cache=prefix_cache, **serving) as engine:

        def submit(request: GenerateRequest) -> None:
            submitted.add(request.request_id)
            engine.submit(request, sinks[request.request_id])

        for request, step in list(zip(requests, arrivals, strict=False))[1:]:
            at_step(runner, step, lambda request=request: submit(request))  # type: ignore[misc]
        submit(requests[0])
        sinks["0"].wait()
        engine.drain(time.monotonic() + 60)
        runner.before_step = lambda step: None
        for request in requests:
            if request.request_id not in submitted:  # the engine fell idle before its step came
                submit(request)
        for request in requests:
            check(request, sinks[request.request_id])
    assert not any(sink.late for sink in sinks.values())
    assert runner.most_sequences <= max_running
    assert runner.most_tokens <= max_running + more_tokens


@given(
    requests=workloads(),
    spare=st.integers(0, 6),
    cancels=st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 8), st.sampled_from([None, None, 0, 1])), min_size=1, max_size=10
    ),
)
def test_cancelled_at_any_step_every_request_ends_once(
    requests: list[GenerateRequest], spare: int, cancels: list[tuple[int, int, int | None]]
) -> None:
    runner = FakeRunner(block_count=least_blocks(requests, 4) + spare)
    sinks = {r.request_id: Collector(r.sequence_count) for r in requests}
    cancelled = {str(number) for _, number, _ in cancels}
    with engine_over(runner) as engine:
        for step, number, index in cancels:
            at_step(runner, step, partial(engine.cancel, str(number), index))
        for request in requests:
            engine.submit(request, sinks[request.request_id])
        for request in requests:
            check(request, sinks[request.request_id], cancellable=request.request_id in cancelled)
        engine.drain(time.monotonic() + 60)
        stats = engine.stats()
        assert (stats.running, stats.waiting, stats.blocks_used) == (0, 0, 0)
    assert not any(sink.late for sink in sinks.values())


def test_resumed_at_every_cut_the_tokens_are_the_same() -> None:
    sampling = SamplingParams(temperature=1.1, seed=5)
    whole = GenerateRequest("whole", (3, 1, 4), 12, min_tokens=4, sampling=sampling, end_ids=frozenset({31}))
    expected, reason = reference(whole)[:2]
    assert len(expected) > 4
    with engine_over(FakeRunner(block_count=100)) as engine:
        for cut in range(len(expected)):
            sink = Collector()
            engine.submit(replace(whole, request_id=str(cut), resume_ids=tuple(expected[:cut])), sink)
            end = sink.finished()
            assert (sink.ids, end.reason) == (expected[cut:], reason)
            assert end.usage.output_tokens == len(expected)


def run_together(engine: PagedEngine, runner: FakeRunner, requests: Sequence[GenerateRequest]) -> list[Collector]:
    """Submit them so that they do run together, the others at the first one's first step; every answer is checked."""
    sinks = [Collector() for _ in requests]

    def submit_the_others() -> None:
        for request, sink in zip(requests[1:], sinks[1:], strict=True):
            engine.submit(request, sink)

    at_step(runner, 1, submit_the_others)
    engine.submit(requests[0], sinks[0])
    for request, sink in zip(requests, sinks, strict=True):
        check(request, sink)
    return sinks


def test_a_small_pool_preempts_and_loses_nobody() -> None:
    runner = FakeRunner(block_count=10)
    requests = [GenerateRequest(str(n), (n, n + 1, n + 2), 30) for n in range(6)]
    with engine_over(runner) as engine:
        run_together(engine, runner, requests)
        assert engine.stats().preemptions > 0


def test_chunks_and_preemptions_are_told_to_the_requests_traces() -> None:
    """Each prompt token is computed in some chunk, and again after each preemption."""
    traces = [Trace(str(n), 0) for n in range(6)]
    requests = [GenerateRequest(str(n), (n, n + 1, n + 2), 30, trace=traces[n]) for n in range(6)]
    runner = FakeRunner(block_count=10)
    with engine_over(runner) as engine:
        sinks = run_together(engine, runner, requests)
        preemptions = engine.stats().preemptions
    kinds = [[what for what, *_ in trace.spans] for trace in traces]
    assert all(each[0] == "prefill" for each in kinds)
    assert sum(each.count("preempted") for each in kinds) == preemptions > 0
    again = [each for each in kinds if "preempted" in each]
    assert all(each.count("prefill") > 1 for each in again)
    assert all(sink.finished().usage.slowest_gap_ns > 0 for sink in sinks)


def test_a_second_run_hits_the_prefix_and_says_so() -> None:
    runner = FakeRunner(block_count=100)
    request = GenerateRequest("first", tuple(range(17)), 6)
    with engine_over(runner) as engine:
        for name, hit in (("first", 0), ("second", 16)):
            sink = Collector()
            engine.submit(replace(request, request_id=name), sink)
            check(request, sink)
            assert sink.finished().usage.cached_prompt_tokens == hit
        stats = engine.stats()
        assert (stats.prefix_tokens_seen, stats.prefix_tokens_hit) == (34, 16)
        assert stats.blocks_total == 100
        assert stats.blocks_cached > 0


def test_end_tokens_end_and_are_no_output() -> None:
    plain = reference(GenerateRequest("x", (1, 2), 20)).ids
    end_id = plain[5]
    first = plain.index(end_id)
    with engine_over(FakeRunner(block_count=100)) as engine:
        sink = Collector()
        request = GenerateRequest("x", (1, 2), 20, end_ids=frozenset({end_id}))
        engine.submit(request, sink)
        end = sink.finished()
        assert (sink.ids, end.reason, end.usage.output_tokens) == (plain[:first], "stop", first)


@pytest.mark.parametrize("fail_at", [1, 2, 3, 6])
def test_a_failing_step_fails_those_it_touched_and_the_engine_goes_on(fail_at: int) -> None:
    runner = FakeRunner(block_count=100)
    requests = [GenerateRequest(str(n), (n,) * 5, 8) for n in range(2)]
    sinks = [Collector() for _ in requests]
    running = [Collector()]

    def fail() -> None:
        raise RuntimeError("the device is gone")

    at_step(runner, fail_at, fail)
    with engine_over(runner, max_running=2) as engine:
        waiting = GenerateRequest("waiting", (7,) * 5, 4)

        def submit_all() -> None:
            engine.submit(requests[1], sinks[1])
            engine.submit(waiting, running[0])

        at_step(runner, 1, submit_all) if fail_at > 1 else None
        engine.submit(requests[0], sinks[0])
        end = sinks[0].wait()
        assert isinstance(end, Failed)
        assert (end.error.code, end.error.reason) == ("INTERNAL", "engine_failed")
        assert "the device is gone" in end.error.text
        if fail_at > 1:
            assert isinstance(sinks[1].wait(), Failed)
            check(waiting, running[0])  # it was not in the step: it had no place yet
        after = Collector()
        engine.submit(replace(requests[0], request_id="after"), after)
        check(requests[0], after)
        assert engine.healthy()


def test_cancel_frees_the_blocks_before_the_next_step() -> None:
    runner = FakeRunner(block_count=100)
    sink, other = Collector(), Collector()
    seen: list[tuple[int, int]] = []
    with engine_over(runner) as engine:
        at_step(runner, 3, lambda: engine.cancel("long"))
        at_step(runner, 4, lambda: seen.append((engine.stats().running, engine.stats().blocks_used)))
        at_step(runner, 1, lambda: engine.submit(GenerateRequest("other", (2,), 30), other))
        engine.submit(GenerateRequest("long", (1,) * 10, 100), sink)
        assert sink.finished().reason == "cancelled"
        other.finished()
    assert seen == [(1, 1)]


def test_the_end_is_told_when_the_blocks_are_free() -> None:
    seen: list[int] = []
    with engine_over(FakeRunner(block_count=100)) as engine:
        collector = Collector()

        def sink(event: Event, /) -> None:
            if isinstance(event, Finished):
                seen.append(engine.stats().blocks_used + engine.stats().running)
            collector(event)

        engine.submit(GenerateRequest("x", (1,) * 10, 5), sink)
        collector.finished()
    assert seen == [0]


def test_cancelling_a_waiting_or_unknown_request_is_quiet() -> None:
    runner = FakeRunner(block_count=100)
    sinks = [Collector(), Collector()]
    with engine_over(runner, max_running=1) as engine:
        at_step(runner, 2, lambda: engine.cancel("1"))
        engine.cancel("nobody")
        for number, sink in enumerate(sinks):
            engine.submit(GenerateRequest(str(number), (5,) * 5, 10), sink)
        assert sinks[0].finished().reason == "length"
        end = sinks[1].finished()
        assert (end.reason, end.usage.output_tokens) in [("cancelled", 0), ("length", 10)]
        engine.cancel("0")
        engine.cancel("0")
        again = Collector()
        engine.drain(time.monotonic())
        engine.submit(GenerateRequest("2", (5,), 3), again)
        assert again.finished().reason == "length"


def test_drain_waits_for_those_it_can_and_cancels_the_rest() -> None:
    runner = FakeRunner(block_count=100)
    sink = Collector()
    with engine_over(runner) as engine:
        engine.submit(GenerateRequest("x", (1,), 100), sink)
        engine.drain(time.monotonic() + 60)
        assert sink.end == Finished(0, "length", sink.finished().usage)
        started = threading.Event()
        at_step(runner, runner.steps + 1, started.set)
        endless = Collector()
        engine.submit(GenerateRequest("y", (1,), 190), endless)
        assert started.wait(60)
        engine.drain(0.0)
        assert endless.end is not None
        assert endless.finished().reason in ("cancelled", "length")
        after = Collector()
        engine.submit(GenerateRequest("z", (1,), 3), after)  # a drained engine still serves
        assert after.finished().reason == "length"


def test_close_ends_everybody_once_and_refuses_the_next() -> None:
    runner = FakeRunner(block_count=100)
    sinks = [Collector() for _ in range(6)]
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go_on.wait(60)

    at_step(runner, 3, hold)
    with engine_over(runner, max_running=2) as engine:
        for number, sink in enumerate(sinks):
            engine.submit(GenerateRequest(str(number), (number,), 50), sink)
        assert begun.wait(60)
        closing = threading.Thread(target=engine.close)
        closing.start()
        go_on.set()
        closing.join(60)
        for sink in sinks:
            end = sink.wait()
            assert isinstance(end, Failed) or end.reason == "length"
            assert not sink.late
        late = Collector()
        engine.submit(GenerateRequest("late", (1,), 5), late)
        end = late.wait()
        assert isinstance(end, Failed)
        assert end.error.reason == "engine_closed"
        assert not engine.healthy()
        engine.close()  # once more is quiet
        engine.drain(time.monotonic())


def test_limits_are_those_of_cache_and_context() -> None:
    with engine_over(FakeRunner(block_count=10), max_sequence_len=0) as engine:
        assert engine.limits.max_sequence_len == CONTEXT
        assert engine.limits.max_request_tokens == 40
        assert engine.limits.vocab_size == VOCABULARY
    with engine_over(FakeRunner(block_count=100), max_sequence_len=50) as engine:
        assert engine.limits.max_request_tokens == 50
    with engine_over(FakeRunner(block_count=100), max_sequence_len=10_000) as engine:
        assert engine.limits.max_sequence_len == CONTEXT


def test_what_can_never_fit_is_refused_and_holds_up_nobody() -> None:
    with engine_over(FakeRunner(block_count=4)) as engine:
        sink, other = Collector(), Collector()
        engine.submit(GenerateRequest("x", (1,) * 10, 7), sink)
        engine.submit(GenerateRequest("y", (1,) * 10, 6), other)
        end = sink.wait()
        assert isinstance(end, Failed)
        assert (end.error.code, end.error.reason) == ("INVALID_ARG", "request_too_long")
        assert "at most 16" in end.error.text
        assert other.finished().reason == "length"


def test_the_step_counter_grows_with_each_forward_pass() -> None:
    runner = FakeRunner(block_count=10)
    with engine_over(runner) as engine:
        sink = Collector()
        engine.submit(GenerateRequest("x", (1,), 7), sink)
        sink.finished()
        assert engine.stats().steps == runner.steps == 7
