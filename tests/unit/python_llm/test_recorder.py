"""What the generator counts: every request ends once, under one reason, and tokens are conserved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hand_engine import HandEngine
from keeping_reply import KeepingReply
from python_llm.admission import Admission
from python_llm.error_reasons import OTHER, labels_of
from python_llm.errors import EngineFailure, InvalidRequest
from python_llm.generation import Failed, Finished, GenerateRequest, Tokens, Usage
from python_llm.generator import Generator
from python_llm.readings import Readings, read
from python_llm.recorder import Recorder
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from server_under_test import wait_until

PROMPT = [7, 8, 9, 10]
_PATIENCE_SECONDS = 60.0  # only catches hangs


class Bench:
    def __init__(self, tokenizer: Tokenizer, **serving: Any) -> None:
        self.engine = HandEngine()
        self.recorder = Recorder()
        config = ServingConfig(**serving)
        admission = Admission(tokenizer, self.engine.limits, self.engine.capabilities, config, ())
        self.generator = Generator(self.engine, tokenizer, config, admission, self.recorder)

    def submit(self, request_id: str, *, probe: bool = False, **values: Any) -> KeepingReply:
        reply = KeepingReply()
        prompt = {} if "text_input" in values else {"input_ids": PROMPT}
        wanted = {**prompt, "max_tokens": 3, **values}
        self.generator.submit(wanted, request_id, reply, probe=probe)
        return reply

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.engine.step()

    def ends(self) -> dict[str, int]:
        """Those that happened."""
        return {reason: n for (reason,), n in self.recorder.groups()["finished"].items() if n}

    def wait_for_ends(self, count: int) -> None:
        wait_until(lambda: sum(self.ends().values()) == count, f"{count} ends", _PATIENCE_SECONDS)

    def read(self) -> Readings:
        return read(self.generator.status(), self.generator.max_running, self.recorder)


@pytest.fixture
def bench(tokenizer: Tokenizer) -> Iterator[Bench]:
    made = Bench(tokenizer)
    yield made
    made.generator.close(0.0)


def test_requests_end_under_their_reason_and_tokens_are_counted(bench: Bench) -> None:
    for name in "ab":
        bench.submit(name)
    bench.engine.wait_for(2)
    bench.run(3)
    bench.wait_for_ends(2)
    seen = bench.read()
    assert bench.ends() == {"length": 2}
    assert (seen.numbers["prompt_tokens"], seen.numbers["output_tokens"]) == (8.0, 6.0)
    assert seen.observed["output_length"] == [3, 3]
    assert seen.observed["prompt_length"] == [4, 4]
    assert [len(seen.observed[name]) for name in ("first_token", "between_tokens", "whole", "queued")] == [2, 4, 2, 0]
    assert min(min(values) for values in seen.observed.values() if values) >= 0.0
    assert not any(bench.read().observed.values())  # told once


def test_running_waiting_and_those_in_context(bench: Bench) -> None:
    for number in range(6):
        bench.submit(str(number))
    bench.engine.wait_for(6)
    names = ("running", "waiting", "unfinished", "max_running", "in_context")
    assert [bench.read().numbers[name] for name in names] == [4, 2, 6, 4, 4]
    bench.run(1)
    assert bench.read().numbers["in_context"] == 0
    bench.run(5)
    bench.wait_for_ends(6)
    assert [bench.read().numbers[name] for name in names] == [0, 0, 0, 4, 0]
    assert bench.recorder.decoding == 0


def test_errors_are_counted_by_reason_wherever_they_come_from(bench: Bench) -> None:
    bench.submit("bad", max_tokens=0)
    bench.submit("hot", temperature=-1.0)
    bench.wait_for_ends(2)
    bench.submit("lost")
    bench.engine.wait_for(1)
    bench.run(1)
    bench.engine.fail()
    bench.wait_for_ends(3)
    bench.generator.drain()
    bench.submit("late")
    bench.wait_for_ends(4)
    assert bench.ends() == {"error": 4}
    assert bench.recorder.groups()["errors"] == {
        ("INVALID_ARG", "max_tokens_too_small"): 1,
        ("INVALID_ARG", "temperature_out_of_range"): 1,
        ("INTERNAL", "engine_failed"): 1,
        ("INTERNAL", OTHER): 0,
        ("UNAVAILABLE", "draining"): 1,
    }
    assert bench.recorder.decoding == 0


def test_a_caller_that_stops_and_a_stop_word(bench: Bench) -> None:
    bench.submit("stopped", max_tokens=50)
    bench.engine.wait_for(1)
    bench.generator.cancel("stopped")
    bench.wait_for_ends(1)
    bench.submit("cut", max_tokens=50, text_input="The ferry left the harbour", stop_words=["left"])
    bench.engine.wait_for(1)
    bench.run(20)
    bench.wait_for_ends(2)
    assert bench.ends() == {"cancelled": 1, "stop": 1}
    assert len(bench.read().observed["whole"]) == 2


def test_several_sequences_are_one_request(bench: Bench) -> None:
    bench.submit("several", num_return_sequences=3)
    bench.engine.wait_for(1)
    bench.run(3)
    bench.wait_for_ends(1)
    seen = bench.read()
    assert bench.ends() == {"length": 1}
    assert seen.observed["output_length"] == [3, 3, 3]
    assert len(seen.observed["first_token"]) == 1
    assert len(seen.observed["between_tokens"]) == 6


def test_resumed_tokens_are_not_counted_again(bench: Bench) -> None:
    bench.submit("resumed", resume_ids=[1, 2], max_tokens=5)
    bench.engine.wait_for(1)
    bench.run(3)
    bench.wait_for_ends(1)
    seen = bench.read()
    assert seen.numbers["output_tokens"] == 3
    assert seen.observed["output_length"] == [3]


def test_probes_leave_no_trace(bench: Bench) -> None:
    probe = bench.submit("probe", probe=True, max_tokens=1)
    bench.engine.wait_for(1)
    bench.run(1)
    wait_until(lambda: bench.generator.status()["running"] == 0, "the probe's end", _PATIENCE_SECONDS)
    bench.submit("bad probe", probe=True, max_tokens=0)
    bench.submit("real", max_tokens=1)
    bench.engine.wait_for(1)
    bench.run(1)
    bench.wait_for_ends(1)
    assert probe is not None
    assert bench.read().numbers["prompt_tokens"] == 4
    assert len(bench.read().observed["whole"]) == 0


def test_tokens_that_come_together_share_their_time() -> None:
    recorder = Recorder()
    events: list[Any] = []
    sink = recorder.watch(GenerateRequest("x", (1, 2), 9), events.append, 0.0)
    for ids in (1,), (2, 3, 4), ():  # some, and none
        sink(Tokens(0, ids))
    assert recorder.output_tokens == 4
    gaps = list(recorder.observed["between_tokens"])
    assert len(gaps) == 3
    assert len(set(gaps)) == 1
    assert recorder.decoding == 1
    sink(Finished(0, "length", Usage(2, 4)))
    assert recorder.decoding == 0
    assert len(events) == 4
    sink(Failed(EngineFailure("engine_failed", "x")))
    assert recorder.decoding == 0


def test_what_nobody_reads_stays_bounded() -> None:
    recorder = Recorder()
    sink = recorder.watch(GenerateRequest("x", (1,), 9), lambda event: None, 0.0)
    for _ in range(9_000):
        sink(Tokens(0, (1,)))
    assert len(recorder.observed["between_tokens"]) == 1 << 13


def test_a_reason_that_is_not_ours_is_other() -> None:
    assert labels_of(EngineFailure("cuda_error_719", "x")) == ("INTERNAL", OTHER)
    assert labels_of(InvalidRequest("top_k_out_of_range", "x")) == ("INVALID_ARG", "top_k_out_of_range")
    assert labels_of(InvalidRequest("nonsense_out_of_range", "x")) == ("INVALID_ARG", OTHER)
