"""A Triton backend that speaks the generator's control contract without an engine: the launcher's tests drive it.

``text_input`` is the word to stream ``max_tokens`` times. The words "stall" (no step from now on) and "sicken"
(the status says unhealthy from now on) are commands.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import triton_python_backend_utils as pb_utils

_STEP_SECONDS = 0.02
_INPUTS = (
    ("text_input", "TYPE_STRING"),
    ("max_tokens", "TYPE_INT32"),
    ("stream", "TYPE_BOOL"),
    ("control", "TYPE_STRING"),
)


class TritonPythonModel:
    """Each request has a thread; a lock keeps the counters."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        config.set_max_batch_size(1)
        config.set_model_transaction_policy({"decoupled": True})
        for name, kind in _INPUTS:
            config.add_input({"name": name, "data_type": kind, "dims": [1], "optional": True})
        config.add_output({"name": "text_output", "data_type": "TYPE_STRING", "dims": [1]})
        return config

    def initialize(self, arguments: dict[str, str]) -> None:
        self._lock = threading.Lock()
        self._running = self._steps = 0
        self._draining = self._stalled = self._sick = False
        self._secret = os.environ["TRITON_LLM_CONTROL_SECRET"]

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            target = self._control if "control" in _inputs(request) else self._stream
            threading.Thread(target=target, args=(request, request.get_response_sender()), daemon=True).start()

    def _control(self, request: Any, sender: Any) -> None:
        order = json.loads(_inputs(request)["control"])
        if order["secret"] != self._secret:
            _fail(sender, "[INVALID_ARG control_refused] control: wrong secret; only the launcher may send it.")
            return
        if order["operation"] == "drain":
            self._draining = True
        if order["operation"] == "probe":
            self._probe()
            _send(sender, json.dumps({"ok": True, "seconds": 0.0}), final=True)
            return
        status = {"healthy": not self._sick, "draining": self._draining, "running": self._running, "waiting": 0}
        _send(sender, json.dumps({**status, "steps": self._steps, "stats": {}}), final=True)

    def _probe(self) -> None:
        while self._stalled:
            time.sleep(_STEP_SECONDS)
        self._steps += 1

    def _stream(self, request: Any, sender: Any) -> None:
        word = _inputs(request)["text_input"].decode()
        self._stalled |= word == "stall"
        self._sick |= word == "sicken"
        if self._draining:
            _fail(sender, "[UNAVAILABLE draining] request: the server is stopping; ask another.")
            return
        with self._lock:
            self._running += 1
        self._send_words(request, sender, word)
        with self._lock:
            self._running -= 1

    def _send_words(self, request: Any, sender: Any, word: str) -> None:
        count = int(_inputs(request)["max_tokens"])
        for index in range(count):
            while self._stalled:
                time.sleep(_STEP_SECONDS)
            time.sleep(_STEP_SECONDS)
            self._steps += 1
            _send(sender, f"{word} ", final=index == count - 1)

    def finalize(self) -> None:
        pass


def _inputs(request: Any) -> dict[str, Any]:
    return {tensor.name(): tensor.as_numpy()[0, 0] for tensor in request.inputs()}


def _send(sender: Any, text: str, *, final: bool) -> None:
    tensor = pb_utils.Tensor("text_output", np.array([[text.encode()]], dtype=np.object_))
    flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if final else 0
    sender.send(pb_utils.InferenceResponse([tensor]), flags=flags)


def _fail(sender: Any, message: str) -> None:
    response = pb_utils.InferenceResponse(error=pb_utils.TritonError(message))
    sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
