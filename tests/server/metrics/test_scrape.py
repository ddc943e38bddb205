"""The metrics port of a real server against the table, and its values against what was sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from prometheus_text import Scrape, scrape
from python_llm.errors import InvalidRequest
from python_llm.metrics import FAMILIES, Family
from server_under_test import ServerUnderTest
from triton_llm_client import Client, GenerateParams

MODELS = ("tiny-generator", "slow-generator")
PROMPT = list(range(10, 50))
SHORT = GenerateParams(max_tokens=8, ignore_eos=True)
ENDS = "triton_llm_requests_finished_total"
_GENERATED = {"le"}


def _ends(told: Scrape, model: str) -> float:
    return sum(v for (name, _), v in told.of(model).items() if name == ENDS)


@contextmanager
def sent(server: ServerUnderTest, model: str, requests: int) -> Iterator[list[Scrape]]:
    """The scrape before the block, and one that has all the requests which end in it."""
    scrapes = [scrape(server.metrics_url)]
    yield scrapes
    want = _ends(scrapes[0], model) + requests
    server.wait_until(lambda: _ends(scrape(server.metrics_url), model) >= want, f"{want} ends on the port")
    server.wait_until(
        lambda: scrape(server.metrics_url).value("triton_llm_requests_running", model=model) == 0, "nothing runs"
    )
    scrapes.append(scrape(server.metrics_url))
    assert _ends(scrapes[1], model) == want


def grown(scrapes: list[Scrape], name: str, **labels: str) -> float:
    before, after = scrapes
    return after.value(name, **labels) - before.value(name, **labels)


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.name)
def test_the_port_says_what_the_table_says(server: ServerUnderTest, row: Family) -> None:
    server.wait_until(lambda: all(scrape(server.metrics_url).of(model) for model in MODELS), "both models' series")
    told = scrape(server.metrics_url)
    assert not told.repeated
    for model in MODELS:
        assert told.types[row.name] == row.kind
        assert told.helps[row.name] == row.help
        name = f"{row.name}_bucket" if row.bounds else row.name
        series = [dict(labels) for (n, labels) in told.of(model) if n == name]
        assert {label["version"] for label in series} == {"1"}
        assert {frozenset(label) for label in series} == {
            frozenset({"model", "version", *row.labels, *(_GENERATED if row.bounds else ())})
        }
        if row.bounds:
            assert sorted(float(label["le"]) for label in series) == [*row.bounds, float("inf")]
        if row.sources and row.labels:
            assert {tuple(label[name] for name in row.labels) for label in series} == set(row.sources)


def test_only_the_table_is_there(server: ServerUnderTest) -> None:
    told = scrape(server.metrics_url)
    names = {name for name in told.types if name.startswith(("triton_llm_", "nv_trt_llm_"))}
    assert names == {row.name for row in FAMILIES}


def test_requests_tokens_and_lengths_are_those_sent(server: ServerUnderTest) -> None:
    with sent(server, MODELS[0], 6) as scrapes, Client(server.grpc_url, model="tiny") as client:
        for number in range(5):
            answer = client.generate([*PROMPT, number], SHORT)
            assert answer.output_tokens == 8
        cut = client.generate(PROMPT, GenerateParams(max_tokens=3, ignore_eos=True, num_return_sequences=2))
        assert cut.output_tokens == 6 or len(cut.choices) == 2
    model = {"model": MODELS[0], "version": "1"}
    assert grown(scrapes, ENDS, finish_reason="length", **model) == 6
    assert grown(scrapes, "triton_llm_prompt_tokens_total", **model) == 5 * 41 + 40
    assert grown(scrapes, "triton_llm_output_tokens_total", **model) == 5 * 8 + 2 * 3
    counts = {
        "time_to_first_token_seconds": 6,
        "queue_time_seconds": 6,
        "e2e_latency_seconds": 6,
        "inter_token_latency_seconds": 5 * 7 + 2 * 2,
        "request_prompt_tokens": 6,
        "request_output_tokens": 7,
    }
    assert {name: grown(scrapes, f"triton_llm_{name}_count", **model) for name in counts} == counts
    assert grown(scrapes, "triton_llm_request_prompt_tokens_sum", **model) == 5 * 41 + 40
    assert grown(scrapes, "triton_llm_request_output_tokens_sum", **model) == 5 * 8 + 2 * 3
    assert grown(scrapes, "triton_llm_request_prompt_tokens_bucket", le="32", **model) == 0
    assert grown(scrapes, "triton_llm_request_prompt_tokens_bucket", le="64", **model) == 6
    sums = {name: grown(scrapes, f"triton_llm_{name}_sum", **model) for name in counts}
    assert 0 < sums["queue_time_seconds"] < sums["time_to_first_token_seconds"] < sums["e2e_latency_seconds"]
    assert sums["inter_token_latency_seconds"] < sums["e2e_latency_seconds"] * 2
    assert grown(scrapes, "triton_llm_engine_steps_total", **model) >= 8
    assert grown(scrapes, "triton_llm_prefix_tokens_hit_total", **model) > 0
    seen = grown(scrapes, "triton_llm_prefix_tokens_seen_total", **model)
    assert grown(scrapes, "triton_llm_prefix_tokens_hit_total", **model) < seen
    other = {"model": MODELS[1]}
    assert grown(scrapes, "triton_llm_prompt_tokens_total", **other) == 0


def test_the_kv_cache_and_nvidias_view_agree(server: ServerUnderTest) -> None:
    told, model = scrape(server.metrics_url), MODELS[0]
    blocks = "nv_trt_llm_kv_cache_block_metrics"
    kinds = ("max", "used", "free", "tokens_per", "fraction")
    most, used, free, size, fraction = (told.value(blocks, kv_cache_block_type=kind, model=model) for kind in kinds)
    assert most == told.value("triton_llm_kv_blocks_max", model=model) > 0
    assert (used, fraction) == (0, 0)
    assert free == most
    assert size == told.value("triton_llm_kv_block_size_tokens", model=model) > 0
    requests = {k: told.value("nv_trt_llm_request_metrics", request_type=k, model=model) for k in ("max", "active")}
    assert requests == {"max": 8, "active": 0}


def test_errors_stand_under_their_reason_from_every_stage(server: ServerUnderTest) -> None:
    model = {"model": MODELS[0]}
    with sent(server, MODELS[0], 4) as scrapes:
        with Client(server.grpc_url, model="tiny") as client:
            for params in GenerateParams(max_tokens=4000), GenerateParams(max_tokens=0):
                with pytest.raises(InvalidRequest):
                    client.generate("x", params)
        for body in {"text_input": "x", "max_tokns": 3}, {"text_input": "x", "temperature": -1.0}:
            url = f"{server.http_url}/v2/models/{MODELS[0]}/generate"
            assert httpx.post(url, json=body, timeout=60).status_code == 400
    reasons = ("max_tokens_too_large", "max_tokens_too_small", "unknown_parameter", "temperature_out_of_range")
    errors = {r: grown(scrapes, "triton_llm_errors_total", code="INVALID_ARG", reason=r, **model) for r in reasons}
    assert errors == dict.fromkeys(reasons, 1)
    assert grown(scrapes, ENDS, finish_reason="error", **model) == 4
    assert scrapes[1].types["triton_llm_errors_total"] == "counter"
    assert grown(scrapes, "triton_llm_prompt_tokens_total", **model) == 0


def test_a_running_stream_is_seen_and_its_cancel_counted(server: ServerUnderTest) -> None:
    model = {"model": MODELS[1]}
    with sent(server, MODELS[1], 1) as scrapes, Client(server.grpc_url, model="slow") as client:
        stream = client.stream(PROMPT, GenerateParams(max_tokens=400), request_id="seen")
        next(stream)

        def seen() -> bool:
            told = scrape(server.metrics_url)
            scheduled = told.value("nv_trt_llm_request_metrics", request_type="scheduled", **model)
            return scheduled == told.value("triton_llm_requests_running", **model) == 1

        server.wait_until(seen, "the running gauge")
        client.cancel("seen")
        assert [chunk.finish_reason for chunk in stream][-1] == "cancelled"
    assert grown(scrapes, ENDS, finish_reason="cancelled", **model) == 1
    assert grown(scrapes, "triton_llm_time_to_first_token_seconds_count", **model) == 1
