"""Control requests against a small real gRPC service that answers as Triton does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from python_llm.errors import InvalidRequest, Unavailable
from triton_launcher.control import Control, NoAnswer, Status

STATUS = {"healthy": True, "draining": False, "running": 2, "waiting": 3, "steps": 99, "stats": {}}
Behaviour = Callable[[Any, grpc.ServicerContext], Iterator[Any]]


class Service(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Hands each request to ``behave``."""

    behave: Behaviour

    def ModelStreamInfer(self, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        yield from self.behave(next(request_iterator), context)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def control(service: Service) -> Iterator[Control]:
    server = grpc.server(ThreadPoolExecutor(4))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    control = Control(f"127.0.0.1:{port}", "the-secret")
    yield control
    control.close()
    server.stop(None).wait()


def answer(record: object) -> Any:
    """A response as Triton sends it: raw bytes with their length in front."""
    text = json.dumps(record).encode()
    response = service_pb2.ModelStreamInferResponse()
    response.infer_response.outputs.add(name="text_output", datatype="BYTES", shape=[1, 1])
    response.infer_response.raw_output_contents.append(len(text).to_bytes(4, "little") + text)
    return response


def test_a_status_is_asked_for_as_the_contract_says(service: Service, control: Control) -> None:
    seen = []

    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        seen.append(request)
        yield answer(STATUS)

    service.behave = behave
    assert control.status("a-generator", 30.0) == Status(True, False, running=2, waiting=3, steps=99)
    (tensor,) = seen[0].inputs
    assert (seen[0].model_name, tensor.name, tensor.datatype, list(tensor.shape)) == (
        "a-generator",
        "control",
        "BYTES",
        [1, 1],
    )
    assert json.loads(tensor.contents.bytes_contents[0]) == {"operation": "status", "secret": "the-secret"}


def test_busy_counts_running_and_waiting() -> None:
    assert Status(True, False, running=2, waiting=3, steps=99).busy == 5


def test_a_probe_returns_its_seconds(service: Service, control: Control) -> None:
    service.behave = lambda request, context: iter([answer({"ok": True, "seconds": 0.25})])
    assert control.probe("a", 30.0) == 0.25


def test_an_error_in_the_stream_comes_back_typed(service: Service, control: Control) -> None:
    message = "in ensemble 'a', [UNAVAILABLE queue_full] request: full; ask later."
    service.behave = lambda request, context: iter([service_pb2.ModelStreamInferResponse(error_message=message)])
    with pytest.raises(Unavailable) as caught:
        control.probe("a", 30.0)
    assert caught.value.reason == "queue_full"


def test_an_error_as_status_comes_back_typed(service: Service, control: Control) -> None:
    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "[INVALID_ARG control_refused] control: wrong secret.")
        yield

    service.behave = behave
    with pytest.raises(InvalidRequest, match="control_refused"):
        control.drain("a", 30.0)


def test_silence_is_no_answer(service: Service, control: Control) -> None:
    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        while context.is_active():
            pass
        yield

    service.behave = behave
    with pytest.raises(NoAnswer, match="DEADLINE_EXCEEDED"):
        control.status("a", 0.2)


@pytest.mark.parametrize("record", [[], "text", {"healthy": True}])
def test_an_answer_that_is_no_status_is_no_answer(service: Service, control: Control, record: object) -> None:
    service.behave = lambda request, context: iter([answer(record)])
    with pytest.raises(NoAnswer):
        control.status("a", 30.0)


def test_a_stream_that_ends_without_an_answer_is_no_answer(service: Service, control: Control) -> None:
    service.behave = lambda request, context: iter([])
    with pytest.raises(NoAnswer, match="ended without an answer"):
        control.status("a", 30.0)


def test_an_answer_is_read_to_the_end_of_its_stream(service: Service, control: Control) -> None:
    """A call left in the moment it ends stays in Triton's count for ever, and an unload of its model hangs."""

    def behave(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield answer(STATUS)
        context.abort(grpc.StatusCode.INTERNAL, "seen by who reads on")

    service.behave = behave
    with pytest.raises(NoAnswer, match="seen by who reads on"):
        control.status("a", 30.0)


def test_nobody_listens_or_a_closed_channel_is_no_answer(control: Control) -> None:
    control.close()
    with pytest.raises(NoAnswer):
        control.status("a", 30.0)
    with pytest.raises(NoAnswer):
        Control("127.0.0.1:1", "").status("a", 30.0)


def test_the_secret_does_not_show(control: Control) -> None:
    assert "the-secret" not in repr(control)
