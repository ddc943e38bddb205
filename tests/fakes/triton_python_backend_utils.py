"""A small real implementation of what the Triton stub offers, for tests without a server."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
LOADED: dict[str, Any] = {}  # the models that others may ask, by name


class TritonModelException(Exception):
    pass


class TritonError(Exception):
    """As the stub's: a message and a code."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        super().__init__(message)
        self._message = message
        self._code = code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class Logger:
    errors: list[str] = []  # noqa: RUF012  one log for the process, as the stub's

    @classmethod
    def log_error(cls, text: str) -> None:
        cls.errors.append(text)


@dataclass(frozen=True)
class Tensor:
    _name: str
    _array: npt.NDArray[Any]

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> npt.NDArray[Any]:
        return self._array


@dataclass(frozen=True)
class InferenceResponse:
    output_tensors: Sequence[Tensor] = ()
    error: TritonError | None = None

    def value(self, name: str) -> Any:
        """The named output as plain Python: text for BYTES, a number for one value, else a list."""
        array = next(t.as_numpy() for t in self.output_tensors if t.name() == name)
        items = array.reshape(-1).tolist()
        if array.dtype == np.object_:
            items = [item.decode() for item in items]
        return items if name == "output_ids" else items[0]


@dataclass
class ResponseSender:
    responses: list[InferenceResponse] = field(default_factory=list)
    finals: int = 0
    cancelled: bool = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if self.finals:
            raise RuntimeError("a response after the final one")
        if response is not None:
            self.responses.append(response)
        self.finals += flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL

    def is_cancelled(self) -> bool:
        return self.cancelled


class InferenceRequest:
    """A request as a model gets it, and, by the keywords of the stub's own constructor, one that a model sends."""

    def __init__(
        self,
        tensors: Mapping[str, npt.NDArray[Any]] | None = None,
        id: str = "",
        custom_parameters: Mapping[str, Any] | None = None,
        timeout_us: int = 0,
        sender: ResponseSender | None = None,
        *,
        model_name: str = "",
        requested_output_names: Sequence[str] = (),
        inputs: Sequence[Tensor] = (),
        request_id: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout: int = 0,
    ) -> None:
        self.tensors = tensors if tensors is not None else {tensor.name(): tensor.as_numpy() for tensor in inputs}
        self.id = id or request_id
        self.custom_parameters = custom_parameters or parameters or {}
        self.timeout_us = timeout_us or timeout
        self.sender = sender or ResponseSender()
        self.model_name = model_name
        self.requested_output_names = requested_output_names

    def exec(self, *, decoupled: bool) -> Iterator[BlsResponse]:
        """Ask the loaded model of that name; the responses as they come, up to its final one."""
        assert decoupled, "the models of these tests are asked for any number of responses"
        model = LOADED.get(self.model_name)
        if model is None:
            error = TritonError(f"Failed for execute the inference request. Model '{self.model_name}' is not ready.")
            return iter([BlsResponse(InferenceResponse(error=error))])
        answers = _QueueSender()
        model.execute([InferenceRequest(self.tensors, self.id, self.custom_parameters, self.timeout_us, answers)])
        return answers.responses_to_the_end()

    def inputs(self) -> list[Tensor]:
        return [Tensor(name, array) for name, array in self.tensors.items()]

    def request_id(self) -> str:
        return self.id

    def parameters(self) -> str:
        return json.dumps(dict(self.custom_parameters))

    def timeout(self) -> int:
        return self.timeout_us

    def get_response_sender(self) -> ResponseSender:
        return self.sender


class BlsResponse:
    """A response as the model that asked for it reads it."""

    def __init__(self, response: InferenceResponse) -> None:
        self._response = response

    def has_error(self) -> bool:
        return self._response.error is not None

    def error(self) -> TritonError | None:
        return self._response.error

    def output_tensors(self) -> Sequence[Tensor]:
        return self._response.output_tensors


class _QueueSender(ResponseSender):
    """Hands the responses to another thread; nobody can cancel it, as under BLS."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: queue.Queue[InferenceResponse | None] = queue.Queue()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        super().send(response, flags)
        if response is not None:
            self._queue.put(response)
        if self.finals:
            self._queue.put(None)

    def responses_to_the_end(self) -> Iterator[BlsResponse]:
        while (response := self._queue.get()) is not None:
            yield BlsResponse(response)
