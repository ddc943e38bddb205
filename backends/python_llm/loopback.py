"""Asks another model of the same Triton over gRPC.

Not by Triton's business logic scripting (BLS): in 2.50 the stub makes a response's tensors without holding Python's
lock, and dies of it within some hundred answers when threads ask at once (later ones hold it).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from python_llm.errors import EngineFailure, ServeError, Unavailable, parse_error
from python_llm.settings import GRPC_ADDRESS_VARIABLE

__all__ = ["Arrays", "Loopback"]

Arrays = dict[str, npt.NDArray[Any]]

_DEFAULT_ADDRESS = "127.0.0.1:8001"  # of a Triton that the launcher did not start
# What Triton says of a model it lacks, or is taking away.
_NOT_LOADED = ("unknown model", "no available versions", "is not ready", "stopped accepting")
_READY_SECONDS = 5.0
_UNBOUNDED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Loopback:
    """A connection to the Triton that this process belongs to. Any thread may ask."""

    def __init__(self) -> None:
        self._address = os.environ.get(GRPC_ADDRESS_VARIABLE) or _DEFAULT_ADDRESS
        self._channel = grpc.insecure_channel(self._address, options=_UNBOUNDED)
        self._service = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def serves(self, model: str, version: str) -> bool:
        """Whether Triton has that version; where it does not answer, it is taken to have it still."""
        request = service_pb2.ModelReadyRequest(name=model, version=version)
        try:
            return bool(self._service.ModelReady(request, timeout=_READY_SECONDS).ready)
        except grpc.RpcError as error:
            return error.code() is not grpc.StatusCode.NOT_FOUND

    def ask(self, model: str, request_id: str, arrays: Arrays, timeout: int = 0, *, version: str = "") -> list[Arrays]:
        """All responses to one request, which are at least one; ``timeout`` in microseconds, 0: none.

        Without ``version`` Triton chooses one.

        Raises:
            ServeError: the model's own error, or why there is no answer.
        """
        request = service_pb2.ModelInferRequest(model_name=model, model_version=version, id=request_id)
        for name, array in arrays.items():
            _add(request, name, array)
        if timeout:
            request.parameters["timeout"].int64_param = timeout
        found, refusal = [], ""
        try:
            # Read to the end: leaving a call in the moment it ends costs Triton its count of requests in flight.
            for answer in self._service.ModelStreamInfer(iter([request])):
                refusal = refusal or answer.error_message
                found.append(dict(_outputs(answer.infer_response)))
        except grpc.RpcError as error:
            raise Unavailable(
                "unreachable",
                f"Triton at '{self._address}': {error.code().name}: {error.details()}; it is asked over its own gRPC "
                f"port: start it with 'triton-llm serve', or name its address in {GRPC_ADDRESS_VARIABLE}.",
            ) from error
        if refusal:
            raise _typed(refusal)
        told = [response for response in found if response]  # an empty one ends a stream
        if not told:
            raise EngineFailure("no_answer", f"model '{model}': it ended the request without an answer.")
        return told


def _add(request: Any, name: str, array: npt.NDArray[Any]) -> None:
    datatype = np_to_triton_dtype(array.dtype)
    request.inputs.add(name=name, datatype=datatype, shape=array.shape)
    is_text = datatype == "BYTES" and array.size > 0
    raw = serialize_byte_tensor(array).item() if is_text else array.tobytes()
    request.raw_input_contents.append(raw)


def _outputs(response: Any) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for row, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        flat = (
            deserialize_bytes_tensor(raw)
            if row.datatype == "BYTES"
            else np.frombuffer(raw, triton_to_np_dtype(row.datatype))
        )
        yield row.name, flat.reshape(tuple(row.shape))


def _typed(message: str) -> ServeError:
    """The model's own error, or what Triton says in its place."""
    if (own := parse_error(message)) is not None:
        return own
    if any(sign in message for sign in _NOT_LOADED):
        return Unavailable("not_loaded", f"{message.rstrip('.')}; ask again when it is loaded.")
    return EngineFailure("refused_by_triton", message)
