"""The unary role over the generator role, both as Triton calls them, with gRPC between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from echo_artifact import make_echo_artifact
from python_llm.model import TritonPythonModel
from python_llm.settings import CONTROL_SECRET_VARIABLE, GRPC_ADDRESS_VARIABLE, ModelEntry, Role, ServingConfig
from server_under_test import free_ports, wait_until
from triton_over_grpc import TritonOverGrpc, triton_over_grpc
from triton_python_backend_utils import InferenceRequest, InferenceResponse, ResponseSender

SECRET = "drawn at start"
TEXT = "The ferry left the small harbour"
_PATIENCE_SECONDS = 60.0  # only catches hangs


def load(folder: Path, role: Role, artifact: str, serving: ServingConfig) -> TritonPythonModel:
    entry = folder / f"echo-{role}" / "1" / "model.json"
    entry.parent.mkdir(parents=True)
    entry.write_text(ModelEntry(role, artifact, serving).to_json(), "utf-8")
    model = TritonPythonModel()
    arguments = {"model_repository": str(entry.parents[1]), "model_version": "1", "model_name": f"echo-{role}"}
    model.initialize(arguments)
    return model


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[TritonOverGrpc]:
    with triton_over_grpc() as triton:
        monkeypatch.setenv(GRPC_ADDRESS_VARIABLE, triton.address)
        yield triton


@pytest.fixture
def unary(tmp_path: Path, triton: TritonOverGrpc) -> Iterator[TritonPythonModel]:
    """NAME-unary, whose generator a test loads, or plays."""
    model = load(tmp_path, "unary", "nowhere", ServingConfig(max_running=2, max_queue_size=2))
    yield model
    model.finalize()


@pytest.fixture
def generator(
    tmp_path: Path, checkpoint: Path, triton: TritonOverGrpc, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TritonPythonModel]:
    monkeypatch.setenv(CONTROL_SECRET_VARIABLE, SECRET)
    artifact = make_echo_artifact(tmp_path / "echo", checkpoint, script={"step_seconds": 0.01})
    model = load(tmp_path, "generator", str(artifact), ServingConfig(max_running=2, max_queue_size=2))
    triton.loaded["echo-generator"] = model
    yield model
    model.finalize()


class Scripted:
    """A generator that answers what a test tells it to, and keeps what it was asked."""

    def __init__(self, *responses: InferenceResponse) -> None:
        self.asked: list[InferenceRequest] = []
        self._responses = responses

    def execute(self, requests: Sequence[InferenceRequest]) -> None:
        self.asked += requests
        for request in requests:
            for response in self._responses:
                request.sender.send(response)
            request.sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def ask(unary: TritonPythonModel, request_id: str = "", timeout_us: int = 0, **values: Any) -> ResponseSender:
    kinds: dict[type, Any] = {str: np.object_, int: np.int32, bool: np.bool_}
    tensors = {
        name: np.array([value.encode() if isinstance(value, str) else value], kinds[type(value)])
        for name, value in values.items()
        if name != "parameters"
    }
    request = InferenceRequest(tensors, request_id, values.get("parameters") or {}, timeout_us)
    assert unary.execute([request]) is None
    return request.sender


def answer(sender: ResponseSender) -> InferenceResponse:
    wait_until(lambda: sender.finals, "the answer", _PATIENCE_SECONDS)
    assert (len(sender.responses), sender.finals) == (1, 1)
    return sender.responses[0]


def error(sender: ResponseSender) -> tuple[int, str]:
    found = answer(sender).error
    assert found is not None
    return found.code(), found.message()


def in_the_engine(generator: TritonPythonModel) -> int:
    control = json.dumps({"operation": "status", "secret": SECRET}).encode()
    request = InferenceRequest({"control": np.array([[control]], np.object_)})
    generator.execute([request])
    stats = json.loads(answer(request.sender).value("text_output"))["stats"]
    return int(stats["running"] + stats["waiting"])


def sequence(index: int, text: str, ids: list[int]) -> InferenceResponse:
    arrays = {
        "text_output": np.array([[text.encode()]], np.object_),
        "output_ids": np.array([ids], np.int32),
        "sequence_index": np.array([[index]], np.int32),
    }
    return InferenceResponse([pb_utils.Tensor(name, array) for name, array in arrays.items()])


@pytest.mark.usefixtures("generator")
def test_one_answer_with_all_of_the_text(unary: TritonPythonModel) -> None:
    response = answer(ask(unary, text_input=TEXT, max_tokens=40))
    assert response.value("text_output").startswith(TEXT)
    assert (response.value("finish_reason"), response.value("num_output_tokens")) == ("length", 40)
    assert all(tensor.as_numpy().ndim == 1 for tensor in response.output_tensors)


@pytest.mark.usefixtures("generator")
def test_the_generators_errors_keep_code_and_text(unary: TritonPythonModel) -> None:
    code, text = error(ask(unary, text_input=TEXT, max_tokens=10**6))
    assert code == pb_utils.TritonError.INVALID_ARG
    assert text.startswith("[INVALID_ARG max_tokens_too_large] max_tokens 1000000")
    code, text = error(ask(unary, text_input=TEXT, parameters={"stream": True}))
    assert (code, text.partition("] ")[0]) == (pb_utils.TritonError.INVALID_ARG, "[INVALID_ARG unknown_parameter")


def test_a_draining_generator_refuses_and_the_unary_says_so(
    unary: TritonPythonModel, generator: TritonPythonModel
) -> None:
    generator.finalize()
    code, text = error(ask(unary, text_input=TEXT, max_tokens=4))
    assert (code, text.partition("] ")[0]) == (pb_utils.TritonError.UNAVAILABLE, "[UNAVAILABLE draining")


def test_a_generator_that_is_not_loaded_is_named(unary: TritonPythonModel) -> None:
    code, text = error(ask(unary, text_input=TEXT))
    assert (code, text.partition("] ")[0]) == (pb_utils.TritonError.UNAVAILABLE, "[UNAVAILABLE not_loaded")
    assert "'echo-generator'" in text


@pytest.mark.usefixtures("generator")
def test_a_caller_who_leaves_stops_the_generator(unary: TritonPythonModel) -> None:
    left, stays = ask(unary, "a", text_input=TEXT, max_tokens=1900), ask(unary, text_input=TEXT, max_tokens=9)
    left.cancelled = True
    assert answer(left).value("finish_reason") == "cancelled"
    assert answer(stays).value("finish_reason") == "length"


@pytest.mark.usefixtures("generator")
def test_a_timeout_of_the_protocol_is_passed_on(unary: TritonPythonModel) -> None:
    sender = ask(unary, timeout_us=50_000, text_input=TEXT, max_tokens=1900)
    assert answer(sender).value("finish_reason") == "timeout"


def test_more_calls_than_the_generator_takes_are_refused_at_once(
    unary: TritonPythonModel, generator: TritonPythonModel
) -> None:
    taken = [ask(unary, str(number), text_input=f"{TEXT} {number}", max_tokens=1900) for number in range(4)]
    wait_until(lambda: in_the_engine(generator) == 4, "2 running and 2 waiting", _PATIENCE_SECONDS)
    assert error(ask(unary, text_input=TEXT, max_tokens=4))[1].startswith("[UNAVAILABLE queue_full] ")
    for sender in taken:
        sender.cancelled = True
    assert {answer(sender).value("finish_reason") for sender in taken} == {"cancelled"}


def test_sequences_follow_each_other(unary: TritonPythonModel, triton: TritonOverGrpc) -> None:
    scripted = Scripted(sequence(1, "second", [3]), sequence(0, "first", [1, 2]))
    triton.loaded["echo-generator"] = scripted
    response = answer(ask(unary, text_input=TEXT))
    arrays = {tensor.name(): tensor.as_numpy().tolist() for tensor in response.output_tensors}
    assert arrays == {"text_output": [b"first", b"second"], "output_ids": [1, 2, 3], "sequence_index": [0, 1]}


def test_what_the_generator_is_asked(unary: TritonPythonModel, triton: TritonOverGrpc) -> None:
    scripted = Scripted(sequence(0, "x", [1]))
    triton.loaded["echo-generator"] = scripted
    senders = [ask(unary, request_id, text_input=TEXT, max_tokens=3) for request_id in ("mine", "", "")]
    assert [answer(sender).value("text_output") for sender in senders] == ["x"] * 3
    ids = {request.request_id() for request in scripted.asked}
    assert len(ids) == 3
    assert "mine" in ids
    for request in scripted.asked:
        assert {name: array.tolist() for name, array in request.tensors.items()} == {
            "text_input": [[TEXT.encode()]],
            "max_tokens": [[3]],
        }


def test_empty_lists_of_texts_are_passed_on(unary: TritonPythonModel, triton: TritonOverGrpc) -> None:
    scripted = Scripted(sequence(0, "x", []))
    triton.loaded["echo-generator"] = scripted
    tensors = {"text_input": np.array([TEXT.encode()], np.object_), "stop_words": np.array([], np.object_)}
    request = InferenceRequest(tensors)
    unary.execute([request])
    assert answer(request.sender).value("output_ids") == []
    assert scripted.asked[0].tensors["stop_words"].shape == (1, 0)


def test_request_parameters_go_with_the_sampling_parameters(unary: TritonPythonModel, triton: TritonOverGrpc) -> None:
    scripted = Scripted(sequence(0, "x", [1]))
    triton.loaded["echo-generator"] = scripted
    answer(ask(unary, text_input=TEXT, sampling_parameters='{"top_p": 0.5}', parameters={"temperature": 0.25}))
    (request,) = scripted.asked
    assert request.parameters() == "{}"
    assert json.loads(request.tensors["sampling_parameters"][0, 0]) == {"top_p": 0.5, "temperature": 0.25}
    twice = ask(unary, text_input=TEXT, sampling_parameters='{"top_p": 0.5}', parameters={"top_p": 0.25})
    assert error(twice)[1].startswith("[INVALID_ARG given_twice] parameter 'top_p'")


def test_a_generator_without_an_answer_is_an_error(unary: TritonPythonModel, triton: TritonOverGrpc) -> None:
    triton.loaded["echo-generator"] = Scripted()
    code, text = error(ask(unary, text_input=TEXT))
    assert (code, text.partition("] ")[0]) == (pb_utils.TritonError.INTERNAL, "[INTERNAL no_answer")


def test_a_mishap_is_logged_and_answered(
    unary: TritonPythonModel, triton: TritonOverGrpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragged = InferenceResponse([pb_utils.Tensor("text_output", np.array([b"x"], np.object_))])
    triton.loaded["echo-generator"] = Scripted(ragged)
    monkeypatch.setattr(pb_utils.Logger, "errors", [])
    assert error(ask(unary, "it", text_input=TEXT))[1].startswith("[INTERNAL internal] request 'it': ")
    assert len(pb_utils.Logger.errors) == 1


def test_a_server_that_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv(GRPC_ADDRESS_VARIABLE, f"127.0.0.1:{port}")
    model = load(tmp_path, "unary", "nowhere", ServingConfig())
    code, text = error(ask(model, text_input=TEXT))
    assert (code, text.partition("] ")[0]) == (pb_utils.TritonError.UNAVAILABLE, "[UNAVAILABLE unreachable")
    assert f"'127.0.0.1:{port}'" in text
    model.finalize()
