"""gRPC: one ModelStreamInfer stream per request over one shared channel.

Uses grpc.aio with tritonclient's generated messages and reads raw bytes itself: tritonclient's InferResult and
its queues cost more per token than the rest of the client together, and the client shares its cores with the
server it measures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2

from python_llm.contract import GENERATOR
from triton_llm_client.chunks import Chunk, chunks_of
from triton_llm_client.failures import from_grpc, from_message
from triton_llm_client.grpc_call import GrpcCall
from triton_llm_client.tensors import checked_inputs, pack, shape_of, unpack
from triton_llm_client.transport import Call, Headers

__all__ = ["GrpcTransport"]

_SERVICE = "/inference.GRPCInferenceService/"
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),  # else a server that was away for long is found again minutes later
)


class GrpcTransport:
    """See Transport. ``address`` is host:port. The channel opens with the first call, on that call's event loop."""

    def __init__(self, address: str, *, tls: bool = False, headers: Headers = dict) -> None:
        self.url = f"{'grpcs' if tls else 'grpc'}://{address}"
        self._address = address
        self._tls = tls
        self._headers = headers
        self._channel: Any = None
        self._stream_infer: Any = None
        self._open: dict[GrpcCall, Call] = {}
        self._left: set[asyncio.Task[None]] = set()  # see calls to their ends whose readers went away

    async def chunks(self, call: Call) -> AsyncGenerator[Chunk, None]:
        request = self._request(call)
        self._connect()
        # Errors come as messages in the stream. Triton 2.50 also offers status codes (metadata triton_grpc_error), and
        # dies of it: a segmentation fault within a few refused requests.
        stream = GrpcCall(self._stream_infer(request, metadata=tuple(self._headers().items()) or None))
        self._open[stream] = call
        ended, error, first = False, None, call.first_index
        try:
            # Read to the end: a call cancelled in the moment it ends costs Triton its count of requests in flight.
            while (response := await stream.read()) is not grpc.aio.EOF:
                if response.error_message:
                    error = error or from_message(response.error_message)
                elif error is None:
                    for chunk in _chunks(response.infer_response, first):
                        yield chunk
            ended = True
        except grpc.aio.AioRpcError as failure:
            ended, error = True, from_grpc(self.url, failure.code().name, failure.details() or "")
            raise error from failure
        finally:
            if self._open.pop(stream, None) and not ended:
                self._leave(stream, call)
        if error is not None:
            raise error

    async def ready(self, model: str) -> bool:
        self._connect()
        ask = self._channel.unary_unary(
            _SERVICE + "ModelReady",
            request_serializer=service_pb2.ModelReadyRequest.SerializeToString,
            response_deserializer=service_pb2.ModelReadyResponse.FromString,
        )
        try:
            return bool((await ask(service_pb2.ModelReadyRequest(name=model), timeout=10)).ready)
        except grpc.aio.AioRpcError:
            return False

    async def close(self) -> None:
        while self._open or self._left:  # a call that was left may leave one more: its `stop`
            while self._open:
                self._leave(*self._open.popitem())
            await asyncio.gather(*self._left, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def _leave(self, stream: GrpcCall, call: Call) -> None:
        task = asyncio.create_task(stream.leave(lambda: self._stop(call)))
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    async def _stop(self, call: Call) -> None:
        """End what the call asked for, where it asked a generator: an ensemble has no such input."""
        if call.contract is GENERATOR and "stop" not in call.tensors:
            stop = Call(call.model, call.request_id, {"stop": (True,)}, stream=False, version=call.version)
            async with aclosing(self.chunks(stop)) as chunks:
                async for _ in chunks:
                    pass

    def _connect(self) -> None:
        if self._channel is not None:
            return
        if self._tls:
            self._channel = grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials(), _OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(self._address, _OPTIONS)
        # One request a stream: on the wire that is a unary request, and grpc then needs one operation to send it.
        self._stream_infer = self._channel.unary_stream(
            _SERVICE + "ModelStreamInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )

    def _request(self, call: Call) -> Any:
        request = service_pb2.ModelInferRequest(model_name=call.model, model_version=call.version, id=call.request_id)
        for row, values in checked_inputs(call.contract, call.inputs()):
            request.inputs.add(name=row.name, datatype=row.dtype, shape=shape_of(call.contract, len(values)))
            request.raw_input_contents.append(pack(row.dtype, values))
        return request


def _chunks(response: Any, index: int) -> tuple[Chunk, ...]:
    tensors = zip(response.outputs, response.raw_output_contents, strict=True)
    return chunks_of({tensor.name: unpack(tensor.datatype, raw) for tensor, raw in tensors}, index)
