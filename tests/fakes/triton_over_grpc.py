"""A small real gRPC side of Triton: requests of a stream go to loaded models, played by the fakes of the stub."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from triton_python_backend_utils import InferenceRequest, InferenceResponse, ResponseSender

__all__ = ["TritonOverGrpc", "triton_over_grpc"]


@dataclass
class TritonOverGrpc:
    """``loaded``: models by name, each with the stub's ``execute``."""

    address: str = ""
    loaded: dict[str, Any] = field(default_factory=dict)


@contextmanager
def triton_over_grpc() -> Iterator[TritonOverGrpc]:
    triton = TritonOverGrpc()
    with ThreadPoolExecutor(32) as threads:
        server = grpc.server(threads)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Service(triton.loaded), server)
        triton.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        yield triton
        server.stop(None).wait()


class _Service(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # it has no types
    def __init__(self, loaded: dict[str, Any]) -> None:
        self._loaded = loaded

    def ModelStreamInfer(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            model = self._loaded.get(request.model_name)
            if model is None:
                message = f"Request for unknown model: '{request.model_name}' is not found"
                yield service_pb2.ModelStreamInferResponse(error_message=message)
                continue
            sender = _QueueSender()
            timeout = request.parameters["timeout"].int64_param
            model.execute([InferenceRequest(dict(_inputs(request)), request.id, {}, timeout, sender)])
            while (response := sender.queue.get()) is not None:
                yield _message(response)


class _QueueSender(ResponseSender):
    """Hands the responses to the thread of the stream; None ends them."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: queue.Queue[InferenceResponse | None] = queue.Queue()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        super().send(response, flags)
        if response is not None:
            self.queue.put(response)
        if self.finals:
            self.queue.put(None)


def _inputs(request: Any) -> Iterator[tuple[str, Any]]:
    for row, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        is_text = row.datatype == "BYTES"
        flat = deserialize_bytes_tensor(raw) if is_text else np.frombuffer(raw, triton_to_np_dtype(row.datatype))
        yield row.name, flat.reshape(tuple(row.shape))


def _message(response: InferenceResponse) -> Any:
    if response.error is not None:
        return service_pb2.ModelStreamInferResponse(error_message=response.error.message())
    found = service_pb2.ModelInferResponse()
    for tensor in response.output_tensors:
        array = tensor.as_numpy()
        datatype = np_to_triton_dtype(array.dtype)
        found.outputs.add(name=tensor.name(), datatype=datatype, shape=array.shape)
        is_text = datatype == "BYTES" and array.size > 0
        raw = serialize_byte_tensor(array).item() if is_text else array.tobytes()
        found.raw_output_contents.append(raw)
    return service_pb2.ModelStreamInferResponse(infer_response=found)
