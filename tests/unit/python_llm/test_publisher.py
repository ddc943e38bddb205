"""What reaches the metrics port, over a fake of it: names, labels, changes alone, a fair share of many observations."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import triton_python_backend_utils as pb_utils
from python_llm.metrics import FAMILIES
from python_llm.publisher import MOST_OBSERVATIONS, Publisher, thinned
from python_llm.readings import Readings

LABELS = {"model": "m-generator", "version": "1"}
SOURCES = {source for row in FAMILIES for source in row.sources.values()}
OBSERVED = {source for row in FAMILIES if row.bounds for source in row.sources.values()}
BOUNDS = (1.0, 2.0, 4.0)


def readings(number: float, observed: float | None = None) -> Readings:
    seen = {source: [] if observed is None else [observed] for source in OBSERVED}
    return Readings(
        dict.fromkeys(SOURCES, number),
        {"finished": {("stop",): int(number)}, "errors": {("INTERNAL", "other"): int(number)}},
        seen,
    )


def port(name: str, **labels: str) -> pb_utils.Metric:
    return pb_utils.MetricFamily.port[name, tuple(sorted({**LABELS, **labels}.items()))]


def operations() -> int:
    return sum(metric.operations for metric in pb_utils.MetricFamily.port.values())


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    gc.collect()  # families of earlier tests
    made = Publisher(pb_utils, LABELS)
    yield made
    made.close()


def test_every_series_of_the_table_is_there_from_the_start(publisher: Publisher) -> None:
    assert port("triton_llm_requests_running").value() == 0
    assert port("nv_trt_llm_request_metrics", request_type="waiting").value() == 0
    assert port("triton_llm_e2e_latency_seconds").buckets
    assert operations() == 0


def test_numbers_arrive_and_only_changes_are_sent(publisher: Publisher) -> None:
    publisher.publish(readings(3, 0.5))
    assert port("triton_llm_prompt_tokens_total").value() == 3
    assert port("triton_llm_errors_total", code="INTERNAL", reason="other").value() == 3
    assert port("triton_llm_requests_finished_total", finish_reason="stop").value() == 3
    assert port("nv_trt_llm_kv_cache_block_metrics", kv_cache_block_type="max").value() == 3
    assert port("triton_llm_inter_token_latency_seconds").observed == [0.5]
    before = operations()
    publisher.publish(readings(3))
    assert operations() == before
    publisher.publish(readings(5))
    assert port("triton_llm_prompt_tokens_total").value() == 5


def test_a_counter_never_falls(publisher: Publisher) -> None:
    publisher.publish(readings(3))
    publisher.publish(readings(2))
    assert port("triton_llm_prompt_tokens_total").value() == 3
    assert port("triton_llm_requests_running").value() == 2


def test_an_engine_that_lacks_a_field_reads_nothing(publisher: Publisher) -> None:
    publisher.publish(Readings({}, {"finished": {}, "errors": {}}, {name: [] for name in OBSERVED}))
    assert port("triton_llm_kv_host_blocks").value() == 0


def test_two_models_stand_side_by_side_and_leave_alone(publisher: Publisher) -> None:
    other = Publisher(pb_utils, {**LABELS, "model": "other-generator"})
    other.publish(readings(9))
    publisher.publish(readings(4))
    assert port("triton_llm_engine_steps_total", model="other-generator").value() == 9
    other.close()
    assert port("triton_llm_engine_steps_total").value() == 4
    assert not [key for key in pb_utils.MetricFamily.port if ("model", "other-generator") in key[1]]


@given(st.lists(st.lists(st.sampled_from([0.5, 1.5, 3.0, 9.0]), max_size=1500), max_size=8))
def test_a_fair_share_of_many(rounds: list[list[float]]) -> None:
    owed = np.zeros(len(BOUNDS) + 1)
    for seen in rounds:
        told = thinned(seen, BOUNDS, owed)
        assert len(told) <= MOST_OBSERVATIONS + len(owed)
        assert all(min(seen) <= value <= max(seen) for value in told)
        if len(seen) <= MOST_OBSERVATIONS:
            assert told == seen
        else:
            for value in set(seen):
                share = seen.count(value) * MOST_OBSERVATIONS / len(seen)
                near = sum(abs(t - value) < 1e-9 for t in told)
                assert abs(near - share) <= 1.0


def test_rare_buckets_are_told_in_the_long_run() -> None:
    owed = np.zeros(len(BOUNDS) + 1)
    told = [value for _ in range(100) for value in thinned([0.5] * 1999 + [9.0], BOUNDS, owed)]
    assert told.count(9.0) in (9, 10)
