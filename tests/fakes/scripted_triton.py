"""A small real Triton for the client's tests: gRPC through tritonclient's own service, HTTP through http.server.

Both play the same script. A prompt is a command: "words A B C" streams the words, "error [HEAD] text" fails
before the first chunk, "break [HEAD] text" after it, "endless" runs until its client leaves.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

__all__ = ["GrpcSide", "ScriptedTriton", "Web", "http_handler"]

Outputs = dict[str, Any]


class Refused(Exception):
    """The script's error, as a backend's message."""


class ScriptedTriton:
    """What both wires share: the script, and what was seen."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.left = threading.Event()  # a client left an endless answer
        self.resets = 0  # clients that broke their connection to do so
        self._stopped: set[str] = set()
        self.grpc_url = ""
        self.http_url = ""
        self.metadata: dict[str, str] = {}
        self.chat_command = "words ok"  # what a chat is answered with

    def play(self, request: dict[str, Any]) -> Iterator[Outputs]:
        self.requests.append(request)
        if request["inputs"].get("stop"):
            self._stopped.add(request["id"])
            yield from _words([""], "cancelled")
            return
        command, _, rest = str(request["inputs"].get("text_input", self.chat_command)).partition(" ")
        if command == "error":
            raise Refused(rest)
        if command == "break":
            yield _outputs("some", None, 1)
            raise Refused(rest)
        if command in ("endless", "deaf"):
            yield from self._endless(request["id"] if command == "endless" else "nobody")
        else:
            yield from _words(rest.split("|"), "length")

    def _endless(self, request_id: str) -> Iterator[Outputs]:
        count = 0
        while request_id not in self._stopped and not self.left.wait(0.005):
            count += 1
            yield _outputs("x", None, count)
        self.left.set()
        yield _outputs("", "cancelled", count)

    def reset(self) -> None:
        """A client broke its connection."""
        self.resets += 1
        self.left.set()


def _words(words: list[str], reason: str) -> Iterator[Outputs]:
    for count, word in enumerate(words, 1):
        yield _outputs(word, reason if count == len(words) else None, count)


def _outputs(text: str, reason: str | None, count: int) -> Outputs:
    return {
        "text_output": text,
        "output_ids": [count - 1] if text else [],
        "sequence_index": 0,
        "finish_reason": reason or "",
        "num_input_tokens": 7,
        "num_output_tokens": count,
        "seed_used": 2**64 - 1,
    }


class GrpcSide(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    def __init__(self, triton: ScriptedTriton) -> None:
        self._triton = triton

    def ModelReady(self, request: Any, context: Any) -> Any:
        return service_pb2.ModelReadyResponse(ready=request.name == "smollm2-generator")

    def ModelStreamInfer(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        self._triton.metadata = {key: str(value) for key, value in context.invocation_metadata()}
        ended = threading.Event()
        context.add_callback(lambda: None if ended.is_set() or context.code() else self._triton.reset())
        for request in requests:
            if request.model_name != "smollm2-generator":
                context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.model_name}'")
            try:
                for outputs in self._triton.play(_read(request)):
                    yield _response(request.id, outputs)
            except Refused as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        ended.set()


def _read(request: Any) -> dict[str, Any]:
    pairs = zip(request.inputs, request.raw_input_contents, strict=True)
    inputs = {tensor.name: _value(tensor, raw) for tensor, raw in pairs}
    return {"model": request.model_name, "id": request.id, "inputs": inputs}


def _value(tensor: Any, raw: bytes) -> Any:
    assert tensor.shape[0] == 1, "the generator's tensors have a batch dimension"
    if tensor.datatype == "BYTES":
        values: list[Any] = [raw[4:].decode()] if tensor.shape[1] == 1 else [raw]
    else:
        code = {"INT32": "i", "BOOL": "?", "FP32": "f", "UINT64": "Q"}[tensor.datatype]
        values = list(struct.unpack(f"<{tensor.shape[1]}{code}", raw))
    return values[0] if tensor.shape[1] == 1 else values


def _response(request_id: str, outputs: Outputs) -> Any:
    message = service_pb2.ModelStreamInferResponse()
    answer = message.infer_response
    answer.id = request_id
    for name, value in outputs.items():
        values = value if isinstance(value, list) else [value]
        datatype, raw = _raw(name, values)
        answer.outputs.add(name=name, datatype=datatype, shape=[1, len(values)])
        answer.raw_output_contents.append(raw)
    answer.parameters["triton_final_response"].bool_param = bool(outputs["finish_reason"])
    return message


def _raw(name: str, values: list[Any]) -> tuple[str, bytes]:
    if isinstance(values[0] if values else 0, str):
        return "BYTES", b"".join(struct.pack("<I", len(v.encode())) + v.encode() for v in values)
    if name == "seed_used":
        return "UINT64", struct.pack("<Q", *values)
    return "INT32", struct.pack(f"<{len(values)}i", *values)


def http_handler(triton: ScriptedTriton) -> type[BaseHTTPRequestHandler]:
    class HttpSide(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            self._json(200 if "/smollm2-generator/" in self.path else 400, {})

        def do_POST(self) -> None:
            model, _, route = self.path.removeprefix("/v2/models/").partition("/")
            fields = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = {"model": model, "id": fields.pop("id", ""), "inputs": fields}
            answers = triton.play(request)
            try:
                first = next(answers)
            except Refused as error:
                self._refuse(str(error), "" if route == "generate" else "data: ")
                return
            if route == "generate":
                self._json(200, _joined([first, *answers]))
            else:
                self._stream(first, answers)

        def _stream(self, first: Outputs, rest: Iterator[Outputs]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("connection", "close")
            self.end_headers()
            try:
                self._event(first)
                for outputs in rest:
                    self._event(outputs)
            except Refused as error:
                self._event({"error": str(error)})
            except OSError:
                triton.left.set()
            self.close_connection = True

        def _event(self, fields: dict[str, Any]) -> None:
            fields = {"model_name": "m", "model_version": "1", "id": "r", **fields}
            self.wfile.write(b"data: " + json.dumps(_flattened(fields), ensure_ascii=False).encode() + b"\n\n")

        def _refuse(self, message: str, prefix: str) -> None:
            """Triton writes an error before the first event as status 400 with an event for its body."""
            body = (prefix + json.dumps({"error": message}) + "\n\n").encode()
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _json(self, status: int, fields: dict[str, Any]) -> None:
            body = json.dumps(_flattened(fields)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return HttpSide


def _flattened(fields: dict[str, Any]) -> dict[str, Any]:
    """As Triton's generate route writes them: a list of one is its element."""
    return {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in fields.items()}


def _joined(answers: list[Outputs]) -> Outputs:
    last = dict(answers[-1])
    last["text_output"] = "".join(one["text_output"] for one in answers)
    last["output_ids"] = [token for one in answers for token in one["output_ids"]]
    return last


class Web(ThreadingHTTPServer):
    request_queue_size = 128  # the usual 5 resets connections of a crowd
