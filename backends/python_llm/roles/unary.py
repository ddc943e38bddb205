"""The unary role: plain infer over the generator of the same Triton.

A model that is not decoupled may answer late through its response senders, so the one instance holds any number of
requests: each waits for the generator in a thread of its own. When a caller leaves, or its deadline passes, the
watcher tells the generator with ``stop``.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import triton_python_backend_utils as pb_utils
from python_llm.contract import STANDARD_PARAMETERS, UNARY, generator_model, role_model
from python_llm.errors import EngineFailure, ServeError
from python_llm.loopback import Arrays, Loopback
from python_llm.request import read_parameters
from python_llm.roles.answers import error_response
from python_llm.sampling_parameters import add_value, parse_sampling_parameters
from python_llm.settings import ModelEntry

__all__ = ["UnaryRole"]

_CANCEL_CHECK_SECONDS = 0.25  # how late a caller's leaving may be noticed; each check costs about 75 us of CPU
_SPARE_THREADS = 16  # beyond what the generator takes: those learn at once that its queue is full


@dataclass(frozen=True, eq=False)
class _Call:
    """One request in flight, by the id that the generator knows it by."""

    request_id: str
    arrays: Arrays
    timeout: int
    sender: Any


class UnaryRole:
    """Asks NAME-generator and answers once."""

    def __init__(self, entry: ModelEntry, model_json: Path) -> None:
        name = model_json.parents[1].name.removesuffix(role_model("", "unary"))
        self._generator = generator_model(name)
        self._version = model_json.parent.name  # of several versions each asks its own generator
        most = entry.serving.max_running + entry.serving.max_queue_size + _SPARE_THREADS
        self._triton = Loopback()
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="unary")
        self._lock = threading.Lock()  # guards the set, and keeps the watcher off senders that have answered
        self._calls: set[_Call] = set()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            try:
                call = _read(request, sender)
            except ServeError as error:
                _answer(sender, error_response(error))
                continue
            with self._lock:
                self._calls.add(call)
            self._threads.submit(self._run, call)

    def finalize(self) -> None:
        """Triton calls it when every request has been answered."""
        self._closed.set()
        self._watcher.join()
        self._threads.shutdown(wait=False)
        self._triton.close()

    def _run(self, call: _Call) -> None:
        try:
            response = self._ask(call)
        except ServeError as error:
            response = error_response(error)
        except Exception as error:
            pb_utils.Logger.log_error(f"request '{call.request_id}': {error!r}")
            response = error_response(EngineFailure("internal", f"request '{call.request_id}': {error!r}."))
        with self._lock:
            self._calls.discard(call)
        _answer(call.sender, response)

    def _ask(self, call: _Call) -> Any:
        responses = self._triton.ask(self._generator, call.request_id, call.arrays, call.timeout, version=self._version)
        tensors = [pb_utils.Tensor(name, array) for name, array in _joined(responses).items()]
        return pb_utils.InferenceResponse(output_tensors=tensors)

    def _watch(self) -> None:
        while not self._closed.wait(_CANCEL_CHECK_SECONDS):
            with self._lock:
                calls = tuple(self._calls)
            for call in calls:
                try:
                    self._stop_if_left(call)
                except Exception as error:
                    pb_utils.Logger.log_error(f"watching request '{call.request_id}': {error!r}")

    def _stop_if_left(self, call: _Call) -> None:
        """Asked again until the call ends, since the generator may not have seen the request yet."""
        with self._lock:
            left = call in self._calls and call.sender.is_cancelled()
        if left:
            with suppress(ServeError):
                self._triton.ask(self._generator, call.request_id, {"stop": np.array([[True]])}, version=self._version)


def _read(request: Any, sender: Any) -> _Call:
    """The request for the generator, whose shapes have a batch dimension."""
    arrays = {tensor.name(): np.array(tensor.as_numpy())[np.newaxis] for tensor in request.inputs()}
    said = read_parameters(request.parameters(), UNARY)
    _add_parameters(arrays, {name: value for name, value in said.items() if name not in STANDARD_PARAMETERS})
    return _Call(request.request_id() or uuid.uuid4().hex, arrays, request.timeout(), sender)


def _add_parameters(arrays: Arrays, parameters: Mapping[str, Any]) -> None:
    """Request parameters go on as sampling parameters, which hold every kind of value."""
    if not parameters:
        return
    given = arrays["sampling_parameters"].reshape(-1)[0] if "sampling_parameters" in arrays else b""
    said = dict(parse_sampling_parameters(given.decode("utf-8", "replace")))
    for name, value in parameters.items():
        add_value(said, name, value, f"parameter '{name}'")
    arrays["sampling_parameters"] = np.array([[json.dumps(said).encode()]], np.object_)


def _joined(responses: Sequence[Arrays]) -> Arrays:
    """The responses of a request's sequences, in their order, as one without a batch dimension."""
    told = sorted(responses, key=_sequence_index)
    names = [row.name for row in UNARY.outputs if any(row.name in response for response in told)]
    return {name: np.concatenate([response[name][0] for response in told if name in response]) for name in names}


def _sequence_index(response: Arrays) -> int:
    return int(response["sequence_index"][0, 0]) if "sequence_index" in response else 0


def _answer(sender: Any, response: Any) -> None:
    sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
