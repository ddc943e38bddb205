"""Control requests of the launcher: authenticated by the secret drawn at each start."""

from __future__ import annotations

import hmac
import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from python_llm.contract import CONTROL_OPERATIONS
from python_llm.errors import InvalidRequest, ServeError
from python_llm.generator import Generator
from python_llm.session import Reply

__all__ = ["Control"]

_PROBE_PRIORITY = -(2**31)


class Control:
    """Answers the operations of ``contract.CONTROL_OPERATIONS``."""

    def __init__(self, generator: Generator, secret: str) -> None:
        """``secret`` empty: every control request is refused."""
        self._generator = generator
        self._secret = secret

    def handle(self, text: str, reply: Reply) -> None:
        operation = self._authorise(text)
        if operation == "probe":
            self._probe(reply)
            return
        if operation == "drain":
            self._generator.drain()
        if operation == "retire":
            self._generator.close(grace_seconds=0.0)
        _answer(reply, self._generator.status())

    def _authorise(self, text: str) -> str:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise InvalidRequest("control_not_json", "control: it must be a JSON object with 'operation' and 'secret'.")
        given = str(parsed.get("secret", ""))
        if not self._secret or not hmac.compare_digest(given.encode(errors="replace"), self._secret.encode()):
            raise InvalidRequest("control_refused", "control: wrong secret; only the launcher may send it.")
        operation = parsed.get("operation")
        if operation not in CONTROL_OPERATIONS:
            raise InvalidRequest(
                "unknown_operation", f"control: operation {operation!r}; known: {', '.join(CONTROL_OPERATIONS)}."
            )
        return str(operation)

    def _probe(self, reply: Reply) -> None:
        values = {"input_ids": [0], "max_tokens": 1, "priority": _PROBE_PRIORITY, "ignore_eos": True}
        self._generator.submit(values, f"probe-{uuid.uuid4().hex}", _ProbeReply(reply), probe=True)


class _ProbeReply:
    """Turns the probe's one token into the control answer."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._begin = time.monotonic()

    def send(self, outputs: Mapping[str, Any], *, final: bool) -> None:
        if final:
            _answer(self._reply, {"ok": True, "seconds": time.monotonic() - self._begin})

    def fail(self, error: ServeError) -> None:
        self._reply.fail(error)

    def is_cancelled(self) -> bool:
        return self._reply.is_cancelled()


def _answer(reply: Reply, record: Mapping[str, Any]) -> None:
    reply.send({"text_output": json.dumps(record)}, final=True)
