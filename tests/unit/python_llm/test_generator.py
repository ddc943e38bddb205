"""The generator before an engine that the test moves by hand: no request is lost, whatever breaks."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hand_engine import HandEngine
from keeping_reply import KeepingReply
from python_llm.admission import Admission, Admitted
from python_llm.control import Control
from python_llm.engine import EngineStats
from python_llm.errors import InvalidRequest, NotFound, ServeError, Unavailable
from python_llm.generator import Generator
from python_llm.prefix_hash import PREFIX_HASH
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from server_under_test import wait_until

TEXT = "The ferry left the small harbour"
_PATIENCE_SECONDS = 60.0  # only catches hangs


class GatedAdmission(Admission):
    """Admission that waits for the test."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gate = threading.Event()
        self.gate.set()

    def admit(self, values: Mapping[str, Any], request_id: str) -> Admitted:
        assert self.gate.wait(30)
        if values.get("text_input") == "break the admission":
            raise RuntimeError("a defect of ours")
        return super().admit(values, request_id)


class Bench:
    """A generator, its engine and shorthand."""

    def __init__(self, tokenizer: Tokenizer, engine: HandEngine, **serving: Any) -> None:
        self.tokenizer = tokenizer
        self.engine = engine
        config = ServingConfig(**serving)
        self.admission = GatedAdmission(tokenizer, engine.limits, engine.capabilities, config, ())
        self.generator = Generator(engine, tokenizer, config, self.admission)
        self.ids = tokenizer.encode(TEXT, special_tokens=True)

    def submit(self, request_id: str, reply: KeepingReply | None = None, **values: Any) -> KeepingReply:
        reply = reply or KeepingReply()
        prompt = {} if {"text_input", "messages"} & set(values) else {"input_ids": self.ids}
        self.generator.submit({**prompt, "max_tokens": len(self.ids), "stream": True, **values}, request_id, reply)
        return reply

    def start(self, request_id: str, reply: KeepingReply | None = None, **values: Any) -> KeepingReply:
        """Submit, and wait until the engine has it."""
        here = len(self.engine.requests)
        reply = self.submit(request_id, reply, **values)
        self.engine.wait_for(here + 1)
        return reply

    def finish(self) -> None:
        while self.engine.requests:
            self.engine.step()

    def counts(self) -> tuple[int, int]:
        """Running and waiting; a request that is being refused counts until its worker has left it."""
        status = self.generator.status()
        return status["running"], status["waiting"]

    def idle(self) -> bool:
        return self.counts() == (0, 0)

    def wait_until_idle(self) -> None:
        wait_until(self.idle, "every request to be gone", _PATIENCE_SECONDS)


@pytest.fixture
def engine() -> HandEngine:
    return HandEngine()


@pytest.fixture
def bench(tokenizer: Tokenizer, engine: HandEngine) -> Iterator[Bench]:
    bench = Bench(tokenizer, engine, max_queue_size=2)
    yield bench
    bench.generator.close(grace_seconds=0.0)
    assert bench.idle()


def test_a_stream_of_deltas_and_one_final_response(bench: Bench) -> None:
    reply = bench.start("x")
    for count in range(1, len(bench.ids)):
        bench.engine.step()
        reply.wait_for(count)
    bench.finish()
    assert reply.wait().text == TEXT
    assert reply.ids == bench.ids
    assert reply.finals == 1
    assert not any(outputs.get("finish_reason") for outputs in reply.sent[:-1])
    last = reply.sent[-1]
    assert last["finish_reason"] == "length"
    assert last["num_input_tokens"] == last["num_output_tokens"] == len(bench.ids)
    assert last["sequence_index"] == 0
    assert 0 <= last["seed_used"] < 2**64


def test_without_a_stream_one_response_has_all(bench: Bench) -> None:
    reply = bench.start("x", stream=False)
    bench.finish()
    assert reply.wait().text == TEXT
    assert reply.ids == bench.ids
    assert (len(reply.sent), reply.finals, reply.reason) == (1, 1, "length")


def test_a_slow_delivery_joins_steps(bench: Bench) -> None:
    """However the steps are grouped, the stream is the same."""
    reply = bench.start("x")
    bench.finish()
    assert reply.wait().text == TEXT
    assert reply.ids == bench.ids


def test_the_seed_used_is_the_seed_asked_for(bench: Bench) -> None:
    reply = bench.start("x", seed=2**64 - 1)
    bench.finish()
    assert reply.wait().sent[-1]["seed_used"] == 2**64 - 1


def test_a_stop_word_ends_the_text_and_frees_the_engine(bench: Bench) -> None:
    reply = bench.start("x", stop_words=["small"], max_tokens=200)
    for _ in bench.ids:  # far from max_tokens
        bench.engine.step()
    assert reply.wait().text == "The ferry left the "
    assert reply.reason == "stop"
    bench.engine.wait_for(0)  # by a cancel
    cut = bench.ids[: len(reply.ids)]
    assert reply.ids == cut
    assert reply.sent[-1]["num_output_tokens"] == len(cut)


def test_min_tokens_comes_before_stop_words(bench: Bench) -> None:
    reply = bench.start("x", stop_words=["small"], min_tokens=len(bench.ids), stream=False)
    bench.finish()
    assert reply.wait().text == TEXT
    assert reply.reason == "length"


def test_resumed_tokens_are_not_sent_again_and_count(bench: Bench) -> None:
    for cut in range(len(bench.ids)):
        reply = bench.start(f"x{cut}", resume_ids=bench.ids[:cut])
        bench.finish()
        assert reply.wait().ids == bench.ids[cut:]
        assert reply.sent[-1]["num_output_tokens"] == len(bench.ids)


def test_a_refused_request_gets_one_error_and_leaves_nothing(bench: Bench) -> None:
    reply = bench.submit("x", max_tokens=0).wait()
    assert isinstance(reply.error, InvalidRequest)
    assert reply.error.reason == "max_tokens_too_small"
    assert reply.sent == []
    bench.wait_until_idle()


def test_a_defect_in_admission_is_an_error_of_ours(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        reply = bench.submit("x", text_input="break the admission").wait()
    assert reply.error is not None
    assert (reply.error.code, reply.error.reason) == ("INTERNAL", "internal")
    other = bench.start("y")
    bench.finish()
    assert other.wait().reason == "length"


def test_the_queue_is_bounded_and_a_probe_passes(bench: Bench) -> None:
    running = [bench.start(f"r{n}") for n in range(4)]
    waiting = [bench.start(f"w{n}") for n in range(2)]
    refused = bench.submit("one too many").wait()
    assert refused.error is not None
    assert (refused.error.code, refused.error.reason) == ("UNAVAILABLE", "queue_full")
    assert "2 requests wait (max_queue_size)" in refused.error.text
    assert isinstance(refused.error, Unavailable)
    assert refused.error.retry_after == 1.0  # nothing has ended yet
    wait_until(lambda: bench.counts() == (4, 2), "the refused one to be forgotten", _PATIENCE_SECONDS)
    probe = KeepingReply()
    bench.generator.submit({"input_ids": [0], "max_tokens": 1}, "probe", probe, probe=True)
    bench.engine.wait_for(7)
    bench.finish()
    for reply in [*running, *waiting, probe]:
        assert reply.wait().reason == "length"
    assert bench.start("now there is room").error is None
    bench.finish()


class BusyEngine(HandEngine):
    """In the middle of a step: it has not looked at what arrived."""

    def stats(self) -> EngineStats:
        return EngineStats(running=0, waiting=len(self.requests), steps=self.steps)


def test_a_burst_during_one_step_may_take_the_free_places(tokenizer: Tokenizer) -> None:
    bench = Bench(tokenizer, BusyEngine(max_running=4), max_queue_size=2)
    taken = [bench.start(f"r{n}") for n in range(6)]  # four places and two that wait
    refused = bench.submit("one too many").wait()
    assert refused.error is not None
    assert refused.error.reason == "queue_full"
    bench.finish()
    assert [reply.wait().reason for reply in taken] == ["length"] * 6
    bench.generator.close(grace_seconds=0.0)


def test_an_id_that_runs_is_refused_and_the_first_runs_on(bench: Bench) -> None:
    first = bench.start("x")
    second = bench.submit("x").wait()
    assert second.error is not None
    assert (second.error.code, second.error.reason) == ("INVALID_ARG", "duplicate_request_id")
    assert "'x'" in second.error.text
    bench.finish()
    assert first.wait().reason == "length"


class Again(KeepingReply):
    """Uses its id again in the moment its final response arrives."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench
        self.second = KeepingReply()

    def send(self, outputs: Mapping[str, Any], *, final: bool) -> None:
        super().send(outputs, final=final)
        if final:
            self._bench.submit("x", self.second)
            for _ in range(1000):  # the delivery thread stands still here, as it may at any time
                if self.second.finals or self._bench.engine.submitted > 1:
                    return
                threading.Event().wait(0.01)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("values", [{}, {"stop_words": ["ferry"]}])
def test_an_id_is_free_when_its_final_response_is_there(
    tokenizer: Tokenizer, values: dict[str, Any], lazy: bool
) -> None:
    engine = HandEngine(lazy_cancel=lazy)
    bench = Bench(tokenizer, engine)
    first = bench.start("x", Again(bench), stream=False, **values)
    assert isinstance(first, Again)
    while not first.finals:
        engine.step()
    first.wait()
    while not first.second.finals:
        engine.step()
    assert first.second.wait().text == TEXT
    assert first.second.reason == "length"
    bench.generator.close(grace_seconds=0.0)
    assert bench.idle()


def test_stop_cancels_the_running_request(bench: Bench) -> None:
    reply = bench.start("x")
    bench.engine.step()
    reply.wait_for(1)
    bench.generator.cancel("x")
    assert reply.wait().reason == "cancelled"
    assert bench.engine.requests == {}
    assert reply.sent[-1]["num_output_tokens"] == 1
    bench.wait_until_idle()
    with pytest.raises(NotFound) as caught:
        bench.generator.cancel("x")
    assert "'x'" in caught.value.text


def test_stop_reaches_a_request_that_is_still_being_admitted(bench: Bench) -> None:
    bench.admission.gate.clear()
    reply = bench.submit("x")
    bench.generator.cancel("x")
    bench.admission.gate.set()
    assert reply.wait().reason == "cancelled"
    bench.wait_until_idle()
    again = bench.start("x")
    bench.finish()
    assert again.wait().reason == "length"


def test_a_caller_that_leaves_frees_its_place(bench: Bench) -> None:
    reply, other = bench.start("x"), bench.start("y")
    reply.has_left = True
    assert reply.wait().reason == "cancelled"
    bench.engine.wait_for(1)
    bench.finish()
    assert other.wait().reason == "length"


def test_a_caller_that_left_during_admission_is_ended_too(bench: Bench) -> None:
    bench.admission.gate.clear()
    reply = bench.submit("x")
    reply.has_left = True
    bench.admission.gate.set()
    assert reply.wait().reason == "cancelled"


def test_a_deadline_ends_with_what_there_is(bench: Bench) -> None:
    reply = bench.submit("x", timeout=1, stream=False)  # not `start`: the engine may have had it when we look
    assert reply.wait().reason == "timeout"
    assert bench.engine.requests == {}


def test_a_deadline_counts_from_arrival(bench: Bench) -> None:
    patient = bench.start("patient", timeout=3_600_000_000)
    bench.finish()
    assert patient.wait().reason == "length"


class Unwatchable(KeepingReply):
    def is_cancelled(self) -> bool:
        raise RuntimeError("the message to Triton was lost")


def test_a_watch_that_fails_does_not_stop_the_watcher(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        odd = bench.start("odd", Unwatchable())
        leaver = bench.start("leaver")
        leaver.has_left = True
        assert leaver.wait().reason == "cancelled"
        assert bench.generator.status()["healthy"]
        bench.finish()
        assert odd.wait().reason == "length"


def test_an_engines_failure_is_told_once(bench: Bench) -> None:
    replies = [bench.start("x"), bench.start("y", stream=False)]
    bench.engine.step()
    bench.engine.fail("engine: the device is gone.")
    for reply in replies:
        reply.wait()
        assert reply.error is not None
        assert (reply.error.code, reply.error.reason) == ("INTERNAL", "engine_failed")
        assert "the device is gone" in reply.error.text
    bench.wait_until_idle()


def test_a_reply_that_breaks_for_good_ends_its_request_alone(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    broken = KeepingReply(break_at=2, for_good=True)
    with caplog.at_level(logging.CRITICAL):
        bench.start("broken", broken)
        other = bench.start("other")
        for _ in range(2):
            bench.engine.step()
            other.wait_for(1)
        broken.wait_for_attempts(3)  # the delta, then the error that says so
        bench.engine.wait_for(1)
        bench.finish()
        assert other.wait().text == TEXT
        bench.wait_until_idle()
        assert bench.generator.status()["healthy"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_breaks_once_still_gets_an_error(
    bench: Bench, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    with caplog.at_level(logging.CRITICAL):
        reply = bench.start("x", KeepingReply(break_at=1), stream=stream)
        bench.finish()
        reply.wait()
        assert reply.error is not None
        assert (reply.error.code, reply.finals) == ("INTERNAL", 1)
        bench.wait_until_idle()


def test_drain_refuses_the_new_and_finishes_the_old(bench: Bench) -> None:
    old = bench.start("old")
    bench.generator.drain()
    assert bench.generator.status()["draining"]
    refused = bench.submit("new").wait()
    assert refused.error is not None
    assert (refused.error.code, refused.error.reason) == ("UNAVAILABLE", "draining")
    assert "another server" in refused.error.text
    bench.finish()
    assert old.wait().reason == "length"
    bench.wait_until_idle()


def test_close_ends_everybody_once_and_refuses_the_next(tokenizer: Tokenizer) -> None:
    engine = HandEngine(max_running=2)
    bench = Bench(tokenizer, engine)
    replies = [bench.start(f"{n}") for n in range(4)]
    engine.step()
    bench.generator.close(grace_seconds=0.0)
    assert engine.closed
    for reply in replies:
        assert reply.finals == 1
        assert reply.reason == "cancelled"
    late = bench.submit("late")
    assert late.error is not None
    assert late.error.reason == "draining"
    assert bench.idle()
    bench.generator.close(grace_seconds=0.0)  # once more is quiet


def test_close_waits_for_those_being_admitted(tokenizer: Tokenizer) -> None:
    bench = Bench(tokenizer, HandEngine())
    bench.admission.gate.clear()
    replies = [bench.submit(f"{n}") for n in range(5)]
    closing = threading.Thread(target=bench.generator.close, kwargs={"grace_seconds": 0.0})
    closing.start()
    bench.admission.gate.set()
    closing.join(30)
    assert [reply.finals for reply in replies] == [1] * 5
    assert bench.idle()


def test_status_tells_the_engines_counters_and_health(bench: Bench) -> None:
    bench.engine.step()
    status = bench.generator.status()
    assert status["healthy"]
    assert status["steps"] == 1
    assert status["stats"]["steps"] == 1
    bench.engine.is_healthy = False
    assert not bench.generator.status()["healthy"]
    json.dumps(status)


def control_text(operation: str, secret: str = "s3cret") -> str:
    return json.dumps({"operation": operation, "secret": secret})


def answer(reply: KeepingReply) -> dict[str, Any]:
    reply.wait()
    assert reply.error is None, reply.error
    record: dict[str, Any] = json.loads(reply.text.strip()) if reply.sent else {}
    return record


class ControlReply(KeepingReply):
    @property
    def text(self) -> str:
        return str(self.sent[-1]["text_output"])


def test_control_answers_status_and_drain(bench: Bench) -> None:
    control = Control(bench.generator, "s3cret")
    status, drain = ControlReply(), ControlReply()
    running = bench.start("x")
    control.handle(control_text("status"), status)
    control.handle(control_text("drain"), drain)
    assert (answer(status)["draining"], answer(status)["running"]) == (False, 1)
    assert answer(drain)["draining"]
    bench.finish()
    assert running.wait().reason == "length"


def test_the_life_of_a_request_is_told_by_its_id(bench: Bench) -> None:
    control, told, none = Control(bench.generator, "s3cret"), ControlReply(), ControlReply()
    reply = bench.start("req-1")
    bench.finish()
    assert reply.wait().reason == "length"
    bench.wait_until_idle()
    control.handle(json.dumps({"operation": "trace", "secret": "s3cret", "request_id": "req"}), told)
    (life,) = answer(told)["traces"]
    assert (life["request_id"], life["reason"], life["error"]) == ("req-1", "length", "")
    assert 0 <= life["queued"] <= life["ended"]
    assert life["responses"] >= 1
    control.handle(json.dumps({"operation": "trace", "secret": "s3cret", "request_id": "other"}), none)
    assert answer(none) == {"traces": [], "kept": 1}


def test_probes_leave_no_trace(bench: Bench) -> None:
    probe = ControlReply()
    Control(bench.generator, "s3cret").handle(control_text("probe"), probe)
    bench.engine.wait_for(1)
    bench.finish()
    probe.wait()
    assert len(bench.generator.traces) == 0


def test_a_probe_is_a_real_token_even_while_draining_and_full(bench: Bench) -> None:
    control = Control(bench.generator, "s3cret")
    replies = [bench.start(f"{n}") for n in range(6)]
    bench.generator.drain()
    probes = [ControlReply(), ControlReply()]
    for probe in probes:
        control.handle(control_text("probe"), probe)
    bench.engine.wait_for(8)
    assert all(request.priority == -(2**31) for request, _ in list(bench.engine.requests.values())[6:])
    assert probes[0].finals == 0
    bench.finish()
    for probe in probes:
        assert answer(probe)["ok"]
        assert answer(probe)["seconds"] >= 0
    for reply in replies:
        reply.wait()


def test_a_probe_of_a_failing_engine_is_an_error(bench: Bench) -> None:
    probe = ControlReply()
    Control(bench.generator, "s3cret").handle(control_text("probe"), probe)
    bench.engine.wait_for(1)
    bench.engine.fail()
    probe.wait()
    assert probe.error is not None
    assert probe.error.reason == "engine_failed"


def test_retire_gives_running_requests_their_grace(tokenizer: Tokenizer) -> None:
    bench = Bench(tokenizer, HandEngine())
    running, retired = bench.start("x"), ControlReply()
    text = json.dumps({"operation": "retire", "secret": "s3cret", "grace_seconds": 600})
    Control(bench.generator, "s3cret").handle(text, retired)  # returns: Triton's thread goes on
    bench.finish()
    assert running.wait().reason == "length"
    assert answer(retired)["running"] == 0
    bench.generator.close(grace_seconds=0.0)  # as finalize does, once more


def test_retire_need_not_be_waited_for(tokenizer: Tokenizer) -> None:
    """An unloading server cannot be asked any more: it is told before, and goes on with what runs."""
    bench = Bench(tokenizer, HandEngine())
    running, told = bench.start("x"), ControlReply()
    text = json.dumps({"operation": "retire", "secret": "s3cret", "grace_seconds": 600, "wait": False})
    Control(bench.generator, "s3cret").handle(text, told)
    assert (answer(told)["draining"], answer(told)["running"], told.finals) == (True, 1, 1)
    refused = bench.submit("y").wait().error
    assert refused is not None
    assert refused.reason == "draining"
    bench.finish()
    assert running.wait().reason == "length"
    assert bench.generator.wait_closed(60)
    assert told.finals == 1


def test_a_version_that_makes_way_refuses_nothing_until_triton_has_it_no_more(tokenizer: Tokenizer) -> None:
    bench = Bench(tokenizer, HandEngine())
    there, told = [True], ControlReply()
    order = {"operation": "retire", "secret": "s3cret", "grace_seconds": 600, "wait": False, "after_unload": True}
    Control(bench.generator, "s3cret", lambda: there[0]).handle(json.dumps(order), told)
    assert answer(told)["draining"] is False
    first = bench.start("x")
    there[0] = False
    second = bench.start("y")  # it was on its way, as an ensemble's second step is
    bench.finish()
    assert (first.wait().reason, second.wait().reason) == ("length", "length")
    assert bench.generator.wait_closed(60)
    assert bench.engine.closed


def test_prefixes_are_told_newest_first_and_bounded(bench: Bench) -> None:
    control, told, empty = Control(bench.generator, "s3cret"), ControlReply(), ControlReply()
    control.handle(control_text("prefixes"), empty)
    assert answer(empty) == {"hash": "", "block_size": 0, "count": 0, "hashes": []}
    bench.engine.hashes = [bytes([n]) * 16 for n in range(3)]
    control.handle(json.dumps({"operation": "prefixes", "secret": "s3cret", "limit": 2}), told)
    assert answer(told)["count"] == 3
    assert answer(told)["hashes"] == ["00" * 16, "01" * 16]
    assert answer(told)["hash"] == PREFIX_HASH


def test_retire_ends_the_engine(tokenizer: Tokenizer) -> None:
    bench = Bench(tokenizer, HandEngine())
    running, retired = bench.start("x"), ControlReply()
    Control(bench.generator, "s3cret").handle(control_text("retire"), retired)
    assert answer(retired)["running"] == 0
    assert running.wait().reason == "cancelled"
    assert bench.engine.closed


@pytest.mark.parametrize(
    ("secret", "text", "reason"),
    [
        ("s3cret", control_text("status", "guess"), "control_refused"),
        ("s3cret", control_text("status", ""), "control_refused"),
        ("s3cret", json.dumps({"operation": "drain"}), "control_refused"),
        ("s3cret", '{"operation": "retire", "secret": "s3cret", "grace_seconds": -1}', "grace_out_of_range"),
        ("s3cret", '{"operation": "retire", "secret": "s3cret", "grace_seconds": true}', "grace_out_of_range"),
        ("s3cret", '{"operation": "retire", "secret": "s3cret", "wait": 0}', "flag_not_boolean"),
        ("s3cret", '{"operation": "retire", "secret": "s3cret", "after_unload": 1}', "flag_not_boolean"),
        ("s3cret", '{"operation": "retire", "secret": "s3cret", "after_unload": true}', "after_unload_waits"),
        ("s3cret", '{"operation": "trace", "secret": "s3cret"}', "request_id_missing"),
        ("s3cret", '{"operation": "prefixes", "secret": "s3cret", "limit": 0}', "limit_out_of_range"),
        ("s3cret", '{"operation": "prefixes", "secret": "s3cret", "limit": 65537}', "limit_out_of_range"),
        ("s3cret", '{"operation": "prefixes", "secret": "s3cret", "limit": true}', "limit_out_of_range"),
        ("s3cret", '{"operation": "drain", "secret": "\\ud800"}', "control_refused"),
        ("", control_text("status", ""), "control_refused"),  # no secret: nobody may
        ("s3cret", "drain", "control_not_json"),
        ("s3cret", "[" * 100_000, "control_not_json"),
        ("s3cret", '["drain"]', "control_not_json"),
        ("s3cret", control_text("explode"), "unknown_operation"),
        ("s3cret", json.dumps({"operation": ["drain"], "secret": "s3cret"}), "unknown_operation"),
    ],
)
def test_control_is_for_the_launcher_alone(bench: Bench, secret: str, text: str, reason: str) -> None:
    with pytest.raises(ServeError) as caught:
        Control(bench.generator, secret).handle(text, ControlReply())
    assert (caught.value.code, caught.value.reason) == ("INVALID_ARG", reason)
    assert not bench.generator.status()["draining"]
    assert "s3cret" not in str(caught.value)
