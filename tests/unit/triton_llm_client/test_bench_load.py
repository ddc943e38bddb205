"""The closed loop against a stub with known timing, on an event loop whose clock jumps instead of waiting."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_artifact import make_echo_artifact
from jumping_loop import JumpingLoop
from python_llm.errors import CallerMistake, EngineFailure
from server_under_test import wait_until
from tiny_checkpoint import make_tiny_checkpoint
from triton_llm_client import ServerUnreachable
from triton_llm_client.bench.idle import idle_cpu
from triton_llm_client.bench.isolated import IsolatedSubject
from triton_llm_client.bench.load import Answer, BenchPrompt, Load, Outcome, closed_loop
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.rounds import Plan, run_rounds
from triton_llm_client.bench.subjects import SUBJECTS, Absent, Setting


class Stub:
    """Answers prompt i after ``seconds[i]``; knows how many were in flight."""

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = seconds
        self._running = 0
        self.most = 0
        self.order: list[int] = []

    async def send(self, prompt: BenchPrompt, output_tokens: int) -> Answer:
        number = int(prompt[0])
        self._running += 1
        self.most = max(self.most, self._running)
        self.order.append(number)
        await asyncio.sleep(self._seconds[number])
        self._running -= 1
        return Answer(output_tokens, 0.1, self._seconds[number])


def measure(stub: Stub, count: int, in_flight: int) -> Outcome:
    loop = JumpingLoop()
    try:
        load = Load(tuple((n,) for n in range(count)), in_flight, output_tokens=10)
        return loop.run_until_complete(closed_loop(stub.send, load))
    finally:
        loop.close()


def test_the_loop_takes_as_long_as_its_requests() -> None:
    stub = Stub([2.0] * 6)
    outcome = measure(stub, 6, in_flight=3)
    assert outcome.seconds == pytest.approx(4.0)
    assert outcome.tokens_per_second == pytest.approx(15.0)
    assert len(outcome.answers) == 6


def test_a_place_is_taken_again_at_once() -> None:
    stub = Stub([5.0, 1.0, 1.0, 1.0])
    assert measure(stub, 4, in_flight=2).seconds == pytest.approx(5.0)
    assert stub.order == [0, 1, 2, 3]


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=20), st.integers(1, 8))
def test_never_more_in_flight_and_never_idle(seconds: list[float], in_flight: int) -> None:
    stub = Stub(seconds)
    outcome = measure(stub, len(seconds), in_flight)
    assert stub.most == min(in_flight, len(seconds))
    assert stub.order == list(range(len(seconds)))
    assert max(max(seconds), sum(seconds) / in_flight) - 1e-6 <= outcome.seconds
    assert outcome.seconds <= sum(seconds) / min(in_flight, len(seconds)) + max(seconds) + 1e-6


def test_a_failing_request_fails_the_run() -> None:
    async def fail(prompt: BenchPrompt, output_tokens: int) -> Answer:
        raise EngineFailure("broken", "engine: it broke.")

    with pytest.raises(EngineFailure):
        asyncio.run(closed_loop(fail, Load(((1,),), 1, 1)))


def test_prompts_are_fixed_by_their_seed() -> None:
    prompts = random_prompts(3, 5, seed="a", vocabulary=500)
    assert prompts == random_prompts(3, 5, seed="a", vocabulary=500)
    assert prompts != random_prompts(3, 5, seed="b", vocabulary=500)
    assert [len(prompt) for prompt in prompts] == [5, 5, 5]
    assert len(set(prompts)) == 3
    assert all(token < 500 for prompt in prompts for token in prompt)


class Recorder:
    """A subject that notes what it was asked."""

    flags = ""

    def __init__(self, name: str, calls: list[tuple[str, int]]) -> None:
        self.name = name
        self._calls = calls
        self.loads: list[Load] = []

    def run(self, load: Load) -> Outcome:
        self._calls.append((self.name, load.in_flight))
        self.loads.append(load)
        return Outcome(1.0, (Answer(load.output_tokens, 0.1, 1.0),) * len(load.prompts))

    def close(self) -> None: ...


def test_subjects_take_turns_under_the_same_loads() -> None:
    calls: list[tuple[str, int]] = []
    one, two = Recorder("one", calls), Recorder("two", calls)
    plan = Plan(in_flight=(1, 4), prompt_tokens=3, output_tokens=2, rounds=2)
    results = run_rounds([one, two], plan, lambda _: None)
    assert calls == [
        *[("one", 4), ("two", 4)],  # warm-up
        *[("one", 1), ("two", 1), ("one", 4), ("two", 4)],
        *[("two", 1), ("one", 1), ("two", 4), ("one", 4)],
    ]
    assert one.loads == two.loads
    assert len(set(one.loads)) == len(one.loads), "no prompt may meet a warm prefix cache"
    assert {key: len(outcomes) for key, outcomes in results.items()} == dict.fromkeys(
        [("one", 1), ("one", 4), ("two", 1), ("two", 4)], 2
    )


def test_time_bounds_the_rounds_but_not_below_the_least() -> None:
    plan = Plan(in_flight=(1,), rounds=50, least_rounds=2, seconds=0.0)
    results = run_rounds([Recorder("one", [])], plan, lambda _: None)
    assert len(results["one", 1]) == 2


def test_the_engine_subject_counts_every_token(tmp_path: Path) -> None:
    artifact = make_echo_artifact(tmp_path / "echo", make_tiny_checkpoint(tmp_path / "checkpoint"))
    subject = SUBJECTS["engine"].open(Setting(artifact, "echo"))
    try:
        outcome = subject.run(Load(random_prompts(5, 4, seed="x", vocabulary=300), 2, output_tokens=7))
    finally:
        subject.close()
    assert [answer.tokens for answer in outcome.answers] == [7] * 5
    assert all(0 < answer.ttft_seconds <= answer.total_seconds <= outcome.seconds for answer in outcome.answers)


def test_the_engine_subject_passes_failures_on(tmp_path: Path) -> None:
    checkpoint = make_tiny_checkpoint(tmp_path / "checkpoint")
    artifact = make_echo_artifact(tmp_path / "echo", checkpoint, script={"fail_at": 3})
    subject = SUBJECTS["engine"].open(Setting(artifact, "echo"))
    try:
        with pytest.raises(EngineFailure, match="told to fail"):
            subject.run(Load(((1, 2),), 1, output_tokens=7))
    finally:
        subject.close()


def test_a_subject_in_its_own_process_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(CallerMistake, match="no such folder"):
        SUBJECTS["engine"].open(Setting(tmp_path / "nowhere", "x"))
    with pytest.raises(EngineFailure, match="ended with 3"):
        IsolatedSubject(os._exit, 3)


class Hanging:
    name, flags = "hanging", ""

    def run(self, load: Load) -> Outcome:
        time.sleep(3600)
        raise AssertionError("nobody waits for this")

    def close(self) -> None: ...


def test_a_subject_that_hangs_is_ended() -> None:
    subject = IsolatedSubject(Hanging, run_seconds=0.2)
    with pytest.raises(EngineFailure, match=r"subject_silent.*no answer to a load within"):
        subject.run(Load(((1,),), 1, 1))
    began = time.monotonic()
    subject.close()
    assert time.monotonic() - began < 10.0, "its process is gone, nobody waits for it"


def test_idle_cpu_sees_what_spins_in_another_process() -> None:
    quiet = idle_cpu(0.3)
    assert quiet >= 0.0
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:  # on a busy machine its turn may not come at once
            wait_until(lambda: idle_cpu(0.3) > quiet, "the spinning process to be seen", 60.0)
        finally:
            spinning.kill()


def test_genai_is_absent_where_there_is_no_ir(tmp_path: Path) -> None:
    with pytest.raises(Absent, match=r"openvino_model\.xml"):
        SUBJECTS["genai"].open(Setting(tmp_path, "echo"))


def test_a_server_that_cannot_be_reached_is_an_error_and_not_an_absence() -> None:
    subject = SUBJECTS["served"].open(Setting(Path("nowhere"), "x", url="127.0.0.1:9"))
    try:
        with pytest.raises(ServerUnreachable):
            subject.run(Load(((1, 2),), 1, output_tokens=7))
    finally:
        subject.close()


def test_every_subject_of_the_table_can_be_found() -> None:
    for row in SUBJECTS.values():
        module, _, name = row.opener.partition(":")
        assert callable(getattr(import_module(module), name))
