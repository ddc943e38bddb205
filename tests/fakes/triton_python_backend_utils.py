"""A small real implementation of what the Triton stub offers, for tests without a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


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


@dataclass
class InferenceRequest:
    tensors: Mapping[str, npt.NDArray[Any]]
    id: str = ""
    custom_parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout_us: int = 0
    sender: ResponseSender = field(default_factory=ResponseSender)
    wanted: Sequence[str] = ()

    def requested_output_names(self) -> list[str]:
        return list(self.wanted)

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


class Metric:
    """One series, as the stub's: a number, or what a histogram observed."""

    def __init__(self, kind: str, buckets: Sequence[float] | None) -> None:
        if (kind == "HISTOGRAM") != (buckets is not None):
            raise TritonModelException(f"a {kind} and buckets {buckets}")
        self.buckets = buckets
        self.observed: list[float] = []
        self.operations = 0
        self._kind = kind
        self._number = 0.0

    def increment(self, by: float) -> None:
        assert self._kind != "HISTOGRAM"
        assert by >= 0.0 or self._kind == "GAUGE"
        self.operations += 1
        self._number += by

    def set(self, number: float) -> None:
        assert self._kind == "GAUGE"
        self.operations += 1
        self._number = number

    def observe(self, number: float) -> None:
        assert self._kind == "HISTOGRAM"
        self.operations += 1
        self.observed.append(number)

    def value(self) -> float:
        assert self._kind != "HISTOGRAM"
        return self._number


Labels = tuple[tuple[str, str], ...]


class MetricFamily:
    """As the stub's: families of one name share its series, which go when their family goes.

    Triton dies when one of two families that hold the same series goes: here the second is refused.
    """

    COUNTER, GAUGE, HISTOGRAM = "COUNTER", "GAUGE", "HISTOGRAM"
    port: dict[tuple[str, Labels], Metric] = {}  # noqa: RUF012  one metrics port for the process

    def __init__(self, name: str, description: str, kind: str) -> None:
        self._name = name
        self._kind = kind
        self._own: list[Labels] = []

    def Metric(self, labels: Mapping[str, str], buckets: Sequence[float] | None = None) -> Metric:
        key: Labels = tuple(sorted(labels.items()))
        assert (self._name, key) not in self.port, f"{self._name}{key}: held twice"
        metric = self.port[self._name, key] = Metric(self._kind, buckets)
        self._own.append(key)
        return metric

    def __del__(self) -> None:
        for key in self._own:
            self.port.pop((self._name, key), None)


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Tensor:
    return Tensor(name, request.tensors[name])
