"""Control requests to a generator: status, probe, drain and retire, over gRPC, one stream per request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from python_llm.errors import ServeError, parse_error

__all__ = ["Control", "NoAnswer", "Status"]


class NoAnswer(Exception):
    """The control request got no answer in time, or an answer that is none; the text says which."""


@dataclass(frozen=True)
class Status:
    """A generator's word about itself."""

    healthy: bool
    draining: bool
    running: int
    waiting: int
    steps: int
    refuses: str = ""  # why it takes no new requests just now; empty when it does

    @property
    def busy(self) -> int:
        return self.running + self.waiting


class Control:
    """A channel to one Triton. Calls raise NoAnswer, or the ServeError that the generator answered."""

    def __init__(self, address: str, secret: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._service = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._secret = secret

    def __repr__(self) -> str:
        return "Control(secret='***')"

    def close(self) -> None:
        """Ends calls that still wait with NoAnswer."""
        self._channel.close()

    def status(self, model: str, timeout: float) -> Status:
        return _status(self.ask(model, "status", timeout))

    def drain(self, model: str, timeout: float) -> Status:
        """The generator refuses new requests from now on."""
        return _status(self.ask(model, "drain", timeout))

    def probe(self, model: str, timeout: float) -> float:
        """Have one real token generated; returns the seconds it took inside."""
        return float(self.ask(model, "probe", timeout)["seconds"])

    def ask(self, model: str, operation: str, timeout: float) -> Mapping[str, Any]:
        """Send one control request and return the JSON object it is answered with."""
        request, found, refusal = self._request(model, operation), None, ""
        try:
            # Read to the end: leaving a call in the moment it ends costs Triton its count of requests in flight.
            for answer in self._service.ModelStreamInfer(iter([request]), timeout=timeout):
                refusal = refusal or answer.error_message
                found = found or _text_output(answer.infer_response)
        except grpc.RpcError as error:
            raise _error(f"{error.code().name}: {error.details()}") from error
        except ValueError as error:  # grpc's word for a channel that was closed
            raise NoAnswer(str(error)) from error
        if refusal:
            raise _error(refusal)
        if found is not None:
            return _object(found, model, operation)
        raise NoAnswer(f"'{operation}' to '{model}': the stream ended without an answer")

    def _request(self, model: str, operation: str) -> Any:
        request = service_pb2.ModelInferRequest(model_name=model, id=f"launcher-{operation}")
        tensor = request.inputs.add(name="control", datatype="BYTES", shape=[1, 1])
        order = {"operation": operation, "secret": self._secret}
        tensor.contents.bytes_contents.append(json.dumps(order).encode())
        return request


def _error(message: str) -> ServeError | NoAnswer:
    return parse_error(message) or NoAnswer(message)


def _text_output(response: Any) -> bytes | None:
    """Bytes of the tensor text_output; None in a response without it (an empty final one)."""
    raw: Iterator[tuple[Any, bytes]] = zip(response.outputs, response.raw_output_contents, strict=False)
    for output, content in raw:
        if output.name == "text_output":
            return bytes(content[4:])  # a 4-byte length before the only element
    return None


def _object(text: bytes, model: str, operation: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise NoAnswer(f"'{operation}' to '{model}': {text[:200]!r} is no JSON") from error
    if not isinstance(found, dict):
        raise NoAnswer(f"'{operation}' to '{model}': {text[:200]!r} is no JSON object")
    return found


def _status(answer: Mapping[str, Any]) -> Status:
    try:
        return Status(
            healthy=bool(answer["healthy"]),
            draining=bool(answer["draining"]),
            running=int(answer["running"]),
            waiting=int(answer["waiting"]),
            steps=int(answer["steps"]),
            refuses=str(answer.get("refuses", "")),
        )
    except KeyError as error:
        raise NoAnswer(f"the status lacks {error}") from error
