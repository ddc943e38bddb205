"""The open loop, and the times of a streamed answer, against stubs whose timing is known to the digit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumping_loop import JumpingLoop
from python_llm.errors import EngineFailure
from triton_llm_client.bench.arrivals import poisson_starts
from triton_llm_client.bench.latency import Slo, figures_of, spread
from triton_llm_client.bench.load import Answer, BenchPrompt, Load, Outcome, run_load
from triton_llm_client.bench.runs import Measured, highest_rate, knee
from triton_llm_client.bench.subjects.openai import OpenAISubject

FIRST, GAP = 0.4, 0.05


def event(text: str, **more: object) -> bytes:
    return f"data: {json.dumps({'choices': [{'text': text}], **more})}\n\n".encode()


class StubService(httpx.AsyncBaseTransport):
    """Streams a role's empty chunk at once, the first text after FIRST, the others GAP apart, then the usage."""

    def __init__(self, places: int) -> None:
        self._place = asyncio.Semaphore(places)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        return httpx.Response(200, content=self._answer(asked["max_tokens"]))

    async def _answer(self, tokens: int) -> AsyncIterator[bytes]:
        async with self._place:
            yield event("")
            await asyncio.sleep(FIRST)
            yield event("one")
            for _ in range(tokens - 1):
                await asyncio.sleep(GAP)
                yield event(" more")
            usage = {"completion_tokens": tokens, "prompt_tokens": 9}
            yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()
            yield b"data: [DONE]\n\n"


def measure(load: Load, places: int = 100) -> Outcome:
    subject = OpenAISubject("stub", "http://stub/v1", "m", transport=StubService(places), loop=JumpingLoop())
    try:
        return subject.run(load)
    finally:
        subject.close()


def test_the_times_of_a_stream_are_those_of_the_stub() -> None:
    (answer,) = measure(Load(("hello",), 1, output_tokens=11)).answers
    assert answer.ttft_seconds == pytest.approx(FIRST), "the role's chunk holds no text"
    assert answer.gaps == pytest.approx([GAP] * 10)
    assert answer.total_seconds == pytest.approx(FIRST + 10 * GAP)
    assert (answer.tokens, answer.prompt_tokens, answer.late_seconds) == (11, 9, 0.0)


def test_requests_come_when_they_are_meant_to_whatever_is_in_flight() -> None:
    outcome = measure(Load(("a", "b", "c"), 3, output_tokens=1, starts=(0.0, 0.1, 5.0)))
    assert [answer.ttft_seconds for answer in outcome.answers] == pytest.approx([FIRST] * 3)
    assert outcome.seconds == pytest.approx(5.0 + FIRST)


def test_waiting_in_the_servers_queue_is_part_of_the_latency() -> None:
    outcome = measure(Load(("a", "b"), 2, output_tokens=1, starts=(1.0, 1.0)), places=1)
    assert sorted(answer.ttft_seconds for answer in outcome.answers) == pytest.approx([FIRST, 2 * FIRST])


def test_a_request_that_is_sent_late_has_waited() -> None:
    """The client's own loop is held up for a second: whoever meant to come then has waited, by the clock."""
    loop = JumpingLoop()

    async def send(prompt: BenchPrompt, output_tokens: int) -> Answer:
        if prompt == "blocks":
            loop._jumping.now += 1.0
        return Answer(1, 0.25, 0.25)

    try:
        load = Load(("blocks", "waits"), 2, 1, starts=(0.0, 0.4))
        late = loop.run_until_complete(run_load(send, load)).answers[1]
    finally:
        loop.close()
    assert late.late_seconds == pytest.approx(0.6)
    assert late.ttft_seconds == pytest.approx(0.85)


def test_failures_are_counted_only_where_the_load_bears_them() -> None:
    async def send(prompt: BenchPrompt, output_tokens: int) -> Answer:
        if prompt == "bad":
            raise EngineFailure("broken", "engine: it broke.")
        return Answer(output_tokens, 0.1, 0.2)

    load = Load(("good", "bad", "good"), 1, 4)
    with pytest.raises(EngineFailure):
        asyncio.run(run_load(send, load))
    outcome = asyncio.run(run_load(send, Load(load.prompts, 1, 4, tolerant=True)))
    figures = figures_of(outcome, Slo())
    assert figures.errors == {"broken": 1}
    assert figures.kept_share == pytest.approx(2 / 3)
    assert len(outcome.good) == 2


@given(st.floats(0.1, 50.0), st.integers(0, 1000))
def test_arrivals_are_fixed_by_their_seed_and_come_at_the_rate(rate: float, seed: int) -> None:
    starts = poisson_starts(rate, 400, str(seed))
    assert starts == poisson_starts(rate, 400, str(seed))
    assert list(starts) == sorted(starts)
    assert 0.7 < rate * starts[-1] / 400 < 1.4  # six standard deviations


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        poisson_starts(0.0, 1, "x")


def test_what_keeps_the_promise() -> None:
    slow_first = Answer(11, 2.0, 3.0)
    slow_token = Answer(11, 0.5, 3.5)
    good = Answer(11, 0.5, 1.5)
    outcome = Outcome(10.0, (slow_first, slow_token, good, Answer(0, 0.0, 0.1, error="queue_full")))
    figures = figures_of(outcome, Slo(first=1.0, token=0.2))
    assert figures.goodput_per_second == pytest.approx(0.1)
    assert figures.kept_share == 0.25
    assert figures.requests_per_second == pytest.approx(0.3)
    assert figures.per_token is not None
    assert figures.per_token.p50 == pytest.approx(0.1)
    assert not Slo(total=1.0).kept(good)


def test_percentiles() -> None:
    found = spread([float(number) for number in range(1001)])
    assert found is not None
    assert (found.p50, found.p90, found.p99, found.p999) == pytest.approx((500, 900, 990, 999))
    assert spread([]) is None


def at(rate: float, seconds: float, kept: bool = True) -> Measured:
    slo = Slo(total=None if kept else 0.0)
    return Measured(rate, 0, figures_of(Outcome(1.0, (Answer(2, seconds / 2, seconds),)), slo), {})


def test_the_knee_and_the_highest_rate() -> None:
    rates = [at(1, 1.0), at(2, 1.5), at(4, 1.9), at(8, 2.5, kept=False), at(16, 1.0)]
    assert knee(rates) == 4
    assert highest_rate(rates) == 4
    assert highest_rate([at(1, 1.0, kept=False), at(2, 1.0)]) is None
