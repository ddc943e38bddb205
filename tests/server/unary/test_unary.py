"""Plain infer on NAME-unary: the generator's answers, its errors, its places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from build_engines.live_server import LiveServer
from generator_status import generator_status
from server_under_test import ServerUnderTest, running_server
from triton_llm_client import Client, GenerateParams
from unary_calls import UnaryCalls

TEXT = "The ferry left the small harbour"
LONG = 1800  # tokens; 36 s at the echo engine's pace: such a request ends otherwise in every test
MODELS = ["echo-tokenizer", "echo-generator", "echo-detokenizer", "echo-unary", "echo"]


def http_infer(server: ServerUnderTest, model: str, outputs: Sequence[str] = (), /, **values: Any) -> httpx.Response:
    kinds = {str: "BYTES", int: "INT32"}
    inputs = [{"name": n, "shape": [1], "datatype": kinds[type(v)], "data": [v]} for n, v in values.items()]
    body = {"inputs": inputs, "outputs": [{"name": name} for name in outputs]}
    return httpx.post(f"{server.http_url}/v2/models/{model}/infer", json=body, timeout=120)


def busy(server: ServerUnderTest) -> int:
    return generator_status(server, "echo-generator").busy


@pytest.mark.parametrize("name", ["echo", "smollm2"])
def test_it_says_what_the_generator_says(server: ServerUnderTest, name: str) -> None:
    with Client(server.grpc_url, model=name) as client:
        expected = client.generate(TEXT, GenerateParams(max_tokens=24))
    with UnaryCalls(server, f"{name}-unary") as calls:
        answer = calls.send(TEXT, 24)
        assert (answer.value("text_output"), answer.value("finish_reason")) == (expected.text, expected.finish_reason)
        assert tuple(answer.value("output_ids")) == expected.output_ids
        assert answer.value("num_input_tokens") == expected.input_tokens
        assert answer.value("num_output_tokens") == expected.output_tokens
    outputs = http_infer(server, f"{name}-unary", text_input=TEXT, max_tokens=24).json()["outputs"]
    assert {row["name"]: row["data"] for row in outputs}["text_output"] == [expected.text]
    assert all(len(row["shape"]) == 1 for row in outputs)
    url = f"{server.http_url}/v2/models/{name}-unary/generate"
    generated = httpx.post(url, json={"text_input": TEXT, "max_tokens": 24}, timeout=120).json()
    assert generated["text_output"] == expected.text


def test_only_the_outputs_asked_for_are_sent(server: ServerUnderTest) -> None:
    answer = http_infer(server, "echo-unary", ["finish_reason"], text_input=TEXT, max_tokens=4).json()
    assert [(row["name"], row["data"]) for row in answer["outputs"]] == [("finish_reason", ["length"])]


def test_sixteen_calls_run_at_once_and_stop_ends_each_by_its_id(server: ServerUnderTest) -> None:
    with UnaryCalls(server, "echo-unary") as calls, Client(server.grpc_url, model="echo") as client:
        answers = {f"call-{n}": calls.send(f"{TEXT} {n}", LONG, request_id=f"call-{n}") for n in range(16)}
        server.wait_until(lambda: generator_status(server, "echo-generator").running == 16, "16 running at once")
        for request_id in answers:
            client.cancel(request_id)
        assert [answer.value("finish_reason") for answer in answers.values()] == ["cancelled"] * 16
        assert max(answer.value("num_output_tokens") for answer in answers.values()) < LONG


def test_a_cancelled_call_frees_its_place(server: ServerUnderTest) -> None:
    before = generator_status(server, "echo-generator").steps
    with UnaryCalls(server, "echo-unary") as calls:
        answers = [calls.send(TEXT, LONG) for _ in range(4)]
        server.wait_until(lambda: busy(server) == 4, "the calls in the generator")
        for answer in answers:
            answer.call.cancel()
        server.wait_until(lambda: busy(server) == 0, "the places free")
    assert generator_status(server, "echo-generator").steps - before < LONG


def test_a_deadline_of_the_caller_frees_its_place(server: ServerUnderTest) -> None:
    before = generator_status(server, "echo-generator").steps
    with UnaryCalls(server, "echo-unary") as calls:
        answer = calls.send(TEXT, LONG, client_timeout=1.0)
        assert "DEADLINE_EXCEEDED" in answer.error[0]
        server.wait_until(lambda: busy(server) == 0, "the place free")
    assert generator_status(server, "echo-generator").steps - before < LONG


@pytest.mark.parametrize("way", ["timeout_us", "timeout"])
def test_a_timeout_ends_it_with_what_there_is(server: ServerUnderTest, way: str) -> None:
    """As a tensor, and as the protocol's own request parameter."""
    options: dict[str, Any] = {way: 300_000}
    with UnaryCalls(server, "echo-unary") as calls:
        answer = calls.send(TEXT, LONG, **options)
        assert answer.value("finish_reason") == "timeout"
        assert answer.value("num_output_tokens") < LONG


def test_errors_keep_their_reason_and_status(server: ServerUnderTest) -> None:
    with UnaryCalls(server, "echo-unary") as calls:
        status, message = calls.send(TEXT, 9_000_000).error
        assert (status, message.partition("] ")[0]) == (
            "StatusCode.INVALID_ARGUMENT",
            "[INVALID_ARG max_tokens_too_large",
        )
        status, message = calls.send(TEXT, 4, parameters={"max_tokns": 9}).error
        assert message.startswith("[INVALID_ARG unknown_parameter] parameter 'max_tokns'")
        assert "'max_tokens'" in message
        first = calls.send(TEXT, LONG, request_id="one")
        server.wait_until(lambda: busy(server) == 1, "the first of that id")
        assert calls.send(TEXT, 4, request_id="one").error[1].startswith("[INVALID_ARG duplicate_request_id] ")
        first.call.cancel()
    answer = http_infer(server, "echo-unary", text_input=TEXT, max_tokens=9_000_000)
    assert (answer.status_code, answer.json()["error"].partition("] ")[0]) == (400, "[INVALID_ARG max_tokens_too_large")
    server.wait_until(lambda: busy(server) == 0, "the place free")


def test_request_parameters_are_heard(server: ServerUnderTest) -> None:
    """Flags, whole numbers and fractions."""
    with UnaryCalls(server, "echo-unary") as calls:
        answer = calls.send(TEXT, 4, parameters={"ignore_eos": True, "max_tokens": 4})
        assert answer.value("num_output_tokens") == 4
    url = f"{server.http_url}/v2/models/echo-unary/infer"
    inputs = [{"name": "text_input", "shape": [1], "datatype": "BYTES", "data": [TEXT]}]
    said = httpx.post(url, json={"inputs": inputs, "parameters": {"temperature": -0.5}}, timeout=120).json()["error"]
    assert "[INVALID_ARG temperature_" in said


def test_a_full_queue_is_said_at_once_and_touches_no_neighbour(server: ServerUnderTest) -> None:
    with UnaryCalls(server, "echo-unary") as calls:
        taken = [calls.send(TEXT, LONG, request_id=f"taken-{n}") for n in range(26)]
        server.wait_until(lambda: busy(server) == 26, "24 running and 2 waiting")
        status, message = calls.send(TEXT, 4).error
        assert (status, message.partition("] ")[0]) == ("StatusCode.UNAVAILABLE", "[UNAVAILABLE queue_full")
        assert http_infer(server, "echo-unary", text_input=TEXT).status_code == 503
        with Client(server.grpc_url, model="echo") as client:
            for number in range(26):
                client.cancel(f"taken-{number}")
        assert {answer.value("finish_reason") for answer in taken} == {"cancelled"}


def test_six_hundred_calls_and_leavers_harm_no_process(server: ServerUnderTest) -> None:
    """Triton's BLS, asked by threads, killed the backend's process within some four hundred."""
    first, stubs = server.tritonserver(), server.stubs()
    with UnaryCalls(server, "echo-unary") as calls:
        for _ in range(30):
            answers = [calls.send(TEXT, 1 + number) for number in range(20)]
            for answer in answers[::5]:
                answer.call.cancel()
            kept = [answer for number, answer in enumerate(answers) if number % 5]
            assert {answer.value("finish_reason") for answer in kept} == {"length"}
            server.wait_until(lambda: busy(server) == 0, "the places free")
    assert (server.tritonserver(), server.stubs()) == (first, stubs)


def test_an_unload_lets_what_is_in_flight_finish(server: ServerUnderTest) -> None:
    control = LiveServer(server.http_url)
    with UnaryCalls(server, "echo-unary") as calls:
        answer = calls.send(TEXT, 100)
        server.wait_until(lambda: busy(server) == 1, "the call in the generator")
        assert control.unload(reversed(MODELS), 120.0) == {}
        assert (answer.value("finish_reason"), answer.value("num_output_tokens")) == ("length", 100)
        control.load(MODELS, 120.0)
        assert calls.send(TEXT, 4).value("finish_reason") == "length"


def test_without_its_generator_it_says_so(server: ServerUnderTest) -> None:
    control = LiveServer(server.http_url)
    assert control.unload(["echo", "echo-generator"], 120.0) == {}
    with UnaryCalls(server, "echo-unary") as calls:
        status, message = calls.send(TEXT, 4).error
        assert (status, message.partition("] ")[0]) == ("StatusCode.UNAVAILABLE", "[UNAVAILABLE not_loaded"), message
        assert "'echo-generator'" in message
        control.load(MODELS, 120.0)
        assert calls.send(TEXT, 4).value("finish_reason") == "length"


def test_a_stopping_server_answers_what_is_in_flight(echo_repository: Path, tmp_path: Path) -> None:
    with (
        running_server(echo_repository, run_dir=tmp_path / "run") as server,
        UnaryCalls(server, "echo-unary") as calls,
    ):
        answers = [calls.send(f"{TEXT} {n}", 150) for n in range(4)]
        server.wait_until(lambda: busy(server) == 4, "the calls in the generator")
        assert server.stop() == 0
        assert [answer.value("finish_reason") for answer in answers] == ["length"] * 4
