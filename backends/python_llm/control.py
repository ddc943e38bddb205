"""Control requests of the launcher: authenticated by the secret drawn at each start."""

from __future__ import annotations

import hmac
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from python_llm.contract import CONTROL_OPERATIONS
from python_llm.departure import await_unloading
from python_llm.errors import InvalidRequest, ServeError
from python_llm.generator import Generator
from python_llm.session import Reply

__all__ = ["Control"]

_PROBE_PRIORITY = -(2**31)
_MAX_GRACE_SECONDS = 86_400.0
_USUAL_HASHES, _MAX_HASHES = 1024, 1 << 16


class Control:
    """Answers the operations of ``contract.CONTROL_OPERATIONS``."""

    def __init__(self, generator: Generator, secret: str, served: Callable[[], bool] = lambda: True) -> None:
        """``secret`` empty: every control request is refused. ``served``: whether Triton has this very version."""
        self._generator = generator
        self._secret = secret
        self._served = served

    def handle(self, text: str, reply: Reply) -> None:
        """Answer ``reply``, at once or later; raises ServeError for what is refused."""
        request = self._authorise(text)
        if request["operation"] == "probe":
            self._probe(reply)
        elif request["operation"] == "retire":
            grace = _grace_seconds(request)
            if _flag(request, "after_unload", False):
                self._retire_after_unload(grace, _flag(request, "wait", True), reply)
            else:
                self._retire(grace, _flag(request, "wait", True), reply)
        elif request["operation"] == "trace":
            traces = self._generator.traces
            found = [trace.to_record() for trace in traces.find(_request_id(request))]
            _answer(reply, {"traces": found, "kept": len(traces)})
        elif request["operation"] == "prefixes":
            _answer(reply, self._generator.prefixes(_limit(request)))
        else:
            if request["operation"] == "drain":
                self._generator.drain()
            _answer(reply, self._generator.status())

    def _authorise(self, text: str) -> Mapping[str, Any]:
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
        if not isinstance(operation, str) or operation not in CONTROL_OPERATIONS:
            raise InvalidRequest(
                "unknown_operation", f"control: operation {operation!r}; known: {', '.join(CONTROL_OPERATIONS)}."
            )
        return parsed

    def _retire(self, grace_seconds: float, wait: bool, reply: Reply) -> None:
        """On a thread of its own: Triton's, which called, must go on taking requests to refuse them."""

        def retire() -> None:
            self._generator.close(grace_seconds)
            if wait:
                _answer(reply, self._generator.status())

        self._generator.drain()
        threading.Thread(target=retire, name="retire", daemon=True).start()
        if not wait:
            _answer(reply, self._generator.status())

    def _retire_after_unload(self, grace_seconds: float, wait: bool, reply: Reply) -> None:
        """For a version that makes way for another: requests come until Triton sends them there."""
        if wait:
            raise InvalidRequest(
                "after_unload_waits", 'control: after_unload and wait; nobody is left to answer: add "wait": false.'
            )

        def retire() -> None:
            if await_unloading(self._served, self._generator.wait_closed):
                self._generator.close(grace_seconds)

        threading.Thread(target=retire, name="retire", daemon=True).start()
        _answer(reply, self._generator.status())

    def _probe(self, reply: Reply) -> None:
        values: dict[str, Any] = {"input_ids": [0], "max_tokens": 1, "ignore_eos": True}
        if self._generator.prioritises:
            values["priority"] = _PROBE_PRIORITY
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


def _grace_seconds(request: Mapping[str, Any]) -> float:
    grace = request.get("grace_seconds", 0)
    if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 <= grace <= _MAX_GRACE_SECONDS:
        raise InvalidRequest(
            "grace_out_of_range", f"control: grace_seconds {grace!r}; it must be from 0 to {_MAX_GRACE_SECONDS:g}."
        )
    return float(grace)


def _flag(request: Mapping[str, Any], name: str, default: bool) -> bool:
    value = request.get(name, default)
    if not isinstance(value, bool):
        raise InvalidRequest("flag_not_boolean", f"control: {name} {value!r}; it must be true or false.")
    return value


def _request_id(request: Mapping[str, Any]) -> str:
    name = request.get("request_id")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("request_id_missing", f"control: request_id {name!r}; it must be a request's id, a text.")
    return name


def _limit(request: Mapping[str, Any]) -> int:
    limit: Any = request.get("limit", _USUAL_HASHES)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MAX_HASHES:
        raise InvalidRequest(
            "limit_out_of_range", f"control: limit {limit!r}; it must be a whole number from 1 to {_MAX_HASHES}."
        )
    return int(limit)


def _answer(reply: Reply, record: Mapping[str, Any]) -> None:
    reply.send({"text_output": json.dumps(record)}, final=True)
