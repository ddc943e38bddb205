"""Many generation streams at once, and how each of them ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import grpc
import httpx
from tritonclient.grpc import service_pb2, service_pb2_grpc

from server_under_test import ServerUnderTest, wait_until

__all__ = ["OpenStreams", "grpc_stream", "http_stream"]

Source = Callable[[ServerUnderTest, str, str, int], Iterator[str]]


def http_stream(server: ServerUnderTest, model: str, prompt: str, max_tokens: int) -> Iterator[str]:
    """Texts as they come over generate_stream; raises on an error, also one inside the stream."""
    url = f"{server.http_url}/v2/models/{model}/generate_stream"
    body = {"text_input": prompt, "max_tokens": max_tokens, "stream": True}
    with httpx.stream("POST", url, json=body, timeout=None) as answer:
        if answer.status_code != 200:
            raise RuntimeError(answer.read().decode())
        for line in answer.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise RuntimeError(event["error"])
                yield str(event["text_output"])


def grpc_stream(server: ServerUnderTest, model: str, prompt: str, max_tokens: int) -> Generator[str, None, None]:
    """The same over gRPC, one stream for the one request."""
    request = service_pb2.ModelInferRequest(model_name=model)
    _add(request, "text_input", "BYTES", "bytes_contents", prompt.encode())
    _add(request, "max_tokens", "INT32", "int_contents", max_tokens)
    _add(request, "stream", "BOOL", "bool_contents", True)
    with grpc.insecure_channel(server.grpc_url) as channel:
        service = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for answer in service.ModelStreamInfer(iter([request])):
            if answer.error_message:
                raise RuntimeError(answer.error_message)
            names = [output.name for output in answer.infer_response.outputs]
            if "text_output" in names:
                yield answer.infer_response.raw_output_contents[names.index("text_output")][4:].decode()


class OpenStreams:
    """Starts ``count`` streams of each source in threads; ``texts`` and ``errors`` fill as they run."""

    def __init__(self, server: ServerUnderTest, model: str, count: int, prompt: str, max_tokens: int) -> None:
        sources = (http_stream, grpc_stream) * count
        self.texts: list[list[str]] = [[] for _ in sources]
        self.errors: list[Exception | None] = [None for _ in sources]
        self._threads = [
            threading.Thread(target=self._read, args=(index, source(server, model, prompt, max_tokens)), daemon=True)
            for index, source in enumerate(sources)
        ]
        for thread in self._threads:
            thread.start()

    def await_first_texts(self) -> None:
        """Until every stream runs, or ended before its first text."""
        wait_until(lambda: all(t or e for t, e in zip(self.texts, self.errors, strict=True)), "first texts", 120.0)

    def await_ends(self) -> None:
        """Until every stream has ended, well or not."""
        wait_until(lambda: not any(thread.is_alive() for thread in self._threads), "the streams' ends", 120.0)

    def _read(self, index: int, texts: Iterator[str]) -> None:
        try:
            for text in texts:
                self.texts[index].append(text)
        except Exception as error:
            self.errors[index] = error


def _add(request: Any, name: str, datatype: str, field: str, value: object) -> None:
    tensor = request.inputs.add(name=name, datatype=datatype, shape=[1, 1])
    getattr(tensor.contents, field).append(value)
