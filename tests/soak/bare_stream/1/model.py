"""COUNT responses with a word and an id each, SECONDS apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            count, seconds = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0] for name in ("COUNT", "SECONDS")
            )
            sending = (request.get_response_sender(), int(count), float(seconds))
            threading.Thread(target=_send, args=sending, daemon=True).start()


def _send(sender: Any, count: int, seconds: float) -> None:
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number * seconds - time.monotonic()))
        word = pb_utils.Tensor("TEXT", np.array([b" word"], np.object_))
        response = pb_utils.InferenceResponse([word, pb_utils.Tensor("IDS", np.array([number], np.int32))])
        last = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if number == count - 1 else 0
        sender.send(response, flags=last)
