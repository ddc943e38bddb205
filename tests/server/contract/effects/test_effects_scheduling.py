"""Who runs first, whose cached blocks are shared, what was measured, and what is told only when asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from generator_status import generator_status
from python_llm.errors import NotFound
from server_under_test import ServerUnderTest
from triton_llm_client import Client, Completion, GenerateParams

Ask = Callable[..., Completion]
LONG = "The harbour was quiet and the boats lay still. " * 12
RUNNING = 4  # as the server's conftest says


def test_metrics_are_in_order_and_a_prompt_is_found_in_the_cache(ask: Ask) -> None:
    told = {"max_tokens": 4, "ignore_eos": True, "return_perf_metrics": True}
    first, second = (ask(LONG, cache_salt="metrics", **told).metrics for _ in range(2))
    assert first is not None
    assert second is not None
    times = [first.arrival_time_ns, first.first_scheduled_time_ns, first.first_token_time_ns, first.last_token_time_ns]
    assert times == sorted(times)
    assert (first.kv_cache_reused_blocks, first.kv_cache_alloc_new_blocks > 0) == (0, True)
    assert second.kv_cache_reused_blocks > 0
    other = ask(LONG, cache_salt="another", **told).metrics
    assert other is not None
    assert other.kv_cache_reused_blocks == 0


@contextmanager
def full(served: ServerUnderTest, client: Client, tenant: str) -> Iterator[None]:
    """Every place is taken until the block ends."""
    endless = GenerateParams(max_tokens=4000, ignore_eos=True, tenant=tenant)
    ids = [f"full-{n}" for n in range(RUNNING)]
    threads = [
        threading.Thread(target=client.generate, args=("Go on", endless), kwargs={"request_id": name}) for name in ids
    ]
    for thread in threads:
        thread.start()
    try:
        served.wait_until(lambda: status(served).running == RUNNING, "every place to be taken")
        yield
    finally:
        for name in ids:
            with suppress(NotFound):  # the test may have ended some of them
                client.cancel(name)
        for thread in threads:
            thread.join()


def status(served: ServerUnderTest) -> Any:
    return generator_status(served, "smollm2-generator")


def wait_for_waiting(served: ServerUnderTest, count: int) -> None:
    served.wait_until(lambda: status(served).waiting >= count, f"{count} to wait")


def scheduled(served: ServerUnderTest, client: Client, waiting: list[dict[str, Any]]) -> list[int]:
    """When each of the requests began, which came in their order while every place was taken."""
    begun: dict[int, int] = {}

    def send(place: int, params: dict[str, Any]) -> None:
        told = GenerateParams(max_tokens=64, ignore_eos=True, return_perf_metrics=True, **params)
        metrics = client.generate("Begin", told).metrics
        assert metrics is not None
        begun[place] = metrics.first_scheduled_time_ns

    threads = [threading.Thread(target=send, args=item) for item in enumerate(waiting)]
    with full(served, client, "many"):
        for count, thread in enumerate(threads, 1):
            thread.start()
            wait_for_waiting(served, count)
        client.cancel("full-0")  # one place, for which they compete
        served.wait_until(lambda: bool(begun), "the first to end")
    for thread in threads:
        thread.join()
    return [begun[place] for place in range(len(waiting))]


def test_a_lower_priority_number_runs_earlier(served: ServerUnderTest, client: Client) -> None:
    later, sooner = scheduled(served, client, [{"priority": 5}, {"priority": -5}])
    assert sooner < later


def test_a_tenant_that_was_served_less_runs_earlier(served: ServerUnderTest, client: Client) -> None:
    later, sooner = scheduled(served, client, [{"tenant": "many"}, {"tenant": "few"}])
    assert sooner < later


def test_stop_cancels_the_request_of_that_id(client: Client) -> None:
    reason = None
    for chunk in client.stream("Go on", GenerateParams(max_tokens=4000, ignore_eos=True), request_id="mine"):
        if reason is None:
            client.cancel("mine")
        reason = chunk.finish_reason or "running"
    assert reason == "cancelled"
    with pytest.raises(NotFound, match="unknown_request"):
        client.cancel("mine")


def post(served: ServerUnderTest, **body: Any) -> dict[str, Any]:
    answer = httpx.post(f"{served.http_url}/v2/models/smollm2-generator/generate", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


TOLD = {"finish_reason", "num_input_tokens", "num_output_tokens"}


@pytest.mark.parametrize(
    ("flag", "value", "without", "more"),
    [
        ("return_finish_reason", False, {"finish_reason"}, set()),
        ("return_num_input_tokens", False, {"num_input_tokens"}, set()),
        ("return_num_output_tokens", False, {"num_output_tokens"}, set()),
        ("return_stop_reason", True, set(), {"stop_reason"}),
        ("return_log_probs", True, set(), {"output_log_probs", "cum_log_probs"}),
        ("return_logprobs", True, set(), {"logprobs"}),
        ("return_cumulative_logprob", True, set(), {"cumulative_logprob"}),
        ("return_prompt_log_probs", True, set(), {"prompt_log_probs", "prompt_tokens"}),
        ("return_perf_metrics", True, set(), {"arrival_time_ns", "acceptance_rate", "batch_index"}),
        ("accumulate_tokens", True, set(), set()),
        ("stream", False, set(), set()),
        ("pad_id", 0, set(), set()),
    ],
)
def test_what_is_told(served: ServerUnderTest, flag: str, value: Any, without: set[str], more: set[str]) -> None:
    answer = post(served, text_input="One two", max_tokens=2, **{flag: value})
    assert set(answer) >= (TOLD - without) | more | {"text_output", "output_ids", "seed_used"}
    assert not set(answer) & without


def test_input_lengths_must_be_true(served: ServerUnderTest) -> None:
    assert post(served, input_ids=5, input_lengths=1, max_tokens=2)["num_input_tokens"] == 1
    url = f"{served.http_url}/v2/models/smollm2-generator/generate"
    refused = httpx.post(url, json={"input_ids": 5, "input_lengths": 2, "max_tokens": 2}, timeout=60)
    assert "[INVALID_ARG wrong_length]" in refused.text


def test_sampling_parameters_say_the_same(ask: Ask) -> None:
    said = {"temperature": "0.5", "seed": 7, "max_tokens": 6, "stop": "zzz", "n": 1}
    assert ask("One two", sampling_parameters=said).text == ask("One two", temperature=0.5, seed=7, max_tokens=6).text


def test_the_ensemble_and_its_every_output_say_the_same(served: ServerUnderTest, ask: Ask) -> None:
    with Client(served.grpc_url, ensemble=True) as ensemble:
        answer = ensemble.generate("One two", GenerateParams(max_tokens=6, return_log_probs=True))
    plain = ask("One two", max_tokens=6, return_log_probs=True)
    assert (answer.text, answer.output_ids) == (plain.text, plain.output_ids)


def test_control_needs_the_launchers_secret(served: ServerUnderTest) -> None:
    url = f"{served.http_url}/v2/models/smollm2-generator/generate"
    body = {"control": json.dumps({"operation": "drain", "secret": "guessed"})}
    assert "[INVALID_ARG control_refused]" in httpx.post(url, json=body, timeout=60).text
