"""Plain infer calls on a served model's unary view, one answer each, several in flight."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from server_under_test import ServerUnderTest

__all__ = ["Answer", "UnaryCalls"]

_PATIENCE_SECONDS = 120.0  # only catches hangs


class Answer:
    """One call: its result or its error, once it came."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._result: Any = None
        self._error: InferenceServerException | None = None
        self.call: Any = None

    def take(self, result: Any, error: InferenceServerException | None) -> None:
        self._result, self._error = result, error
        self._came.set()

    def value(self, name: str) -> Any:
        """An output as plain Python; raises the call's error."""
        assert self._came.wait(_PATIENCE_SECONDS), "no answer came"
        if self._error is not None:
            raise self._error
        found = self._result.as_numpy(name)
        assert found.ndim == 1
        items = [item.decode() if isinstance(item, bytes) else item for item in found.tolist()]
        return items if name == "output_ids" else items[0]

    @property
    def error(self) -> tuple[str, str]:
        """Its gRPC status and message."""
        assert self._came.wait(_PATIENCE_SECONDS), "no answer came"
        assert self._error is not None, "the call succeeded"
        return str(self._error.status()), str(self._error.message())


class UnaryCalls:
    """Calls to one Triton model over one gRPC connection, until the block ends."""

    def __init__(self, server: ServerUnderTest, model: str) -> None:
        self._model = model
        self._client = triton.InferenceServerClient(server.grpc_url)

    def __enter__(self) -> UnaryCalls:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def send(self, text: str, max_tokens: int, *, request_id: str = "", **options: Any) -> Answer:
        """Start a call; ``timeout_us`` goes in as a tensor, other options to tritonclient."""
        inputs = [_tensor("text_input", text.encode(), np.object_), _tensor("max_tokens", max_tokens, np.int32)]
        if (timeout := options.pop("timeout_us", None)) is not None:
            inputs.append(_tensor("timeout", timeout, np.uint64))
        answer = Answer()
        answer.call = self._client.async_infer(self._model, inputs, answer.take, request_id=request_id, **options)
        return answer


def _tensor(name: str, value: Any, kind: Any) -> triton.InferInput:
    array = np.array([value], kind)
    found = triton.InferInput(name, [1], np_to_triton_dtype(array.dtype))
    found.set_data_from_numpy(array)
    return found
