"""A request's life as it is kept: bounded, by id, without a word of what was asked or answered."""

from __future__ import annotations

import json

from python_llm.errors import InvalidRequest
from python_llm.generation import Usage
from python_llm.trace import Trace, TraceRing

_S = 1_000_000_000


def test_times_are_told_since_the_arrival() -> None:
    trace = Trace("a", 10 * _S)
    trace.prefill(11 * _S, 12 * _S, 256)
    usage = Usage(8, 3, first_scheduled_ns=11 * _S, first_token_ns=12 * _S, last_token_ns=14 * _S, slowest_gap_ns=_S)
    trace.ended("length", usages=[usage])
    record = json.loads(json.dumps(trace.to_record()))
    assert record["spans"] == [{"what": "prefill", "at": 1.0, "seconds": 1.0, "tokens": 256}]
    (sequence,) = record["sequences"]
    assert (sequence["first_scheduled"], sequence["first_token"], sequence["last_token"]) == (1.0, 2.0, 4.0)
    assert (sequence["slowest_gap"], record["reason"], record["queued"], record["first_sent"]) == (
        1.0,
        "length",
        None,
        None,
    )


def test_spans_are_bounded() -> None:
    trace = Trace("a", 0)
    for _ in range(100):
        trace.preempted(1)
    record = trace.to_record()
    assert (len(record["spans"]), record["spans_dropped"]) == (64, 36)


def test_the_ring_keeps_the_latest() -> None:
    ring = TraceRing(most=2)
    for name in ("one", "two", "three"):
        ring.begin(name, 0.0)
    assert len(ring) == 2
    assert ring.find("one") == []
    assert [trace.request_id for trace in ring.find("two")] == ["two"]


def test_an_id_is_found_whole_before_those_that_begin_so() -> None:
    ring = TraceRing()
    for name in ("req", "req-1", "req-2", "req"):
        ring.begin(name, 0.0)
    assert [trace.request_id for trace in ring.find("req")] == ["req", "req"]
    assert [trace.request_id for trace in ring.find("req-")] == ["req-1", "req-2"]


def test_an_error_is_told_with_its_reason() -> None:
    trace = Trace("a", 0)
    trace.ended("error", InvalidRequest("empty_prompt", "text_input: it is empty."))
    assert "[INVALID_ARG empty_prompt]" in trace.to_record()["error"]
