"""A line of JSON for each request that ended: who, what, how long, how much. No prompt, no answer, no key.

The request's record is read at its end; `Metered` has written its model and tokens, `Authentication` its caller.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openai_gateway.request_record import RECORD

__all__ = ["AccessLog", "JsonLines", "write_access_log"]

_log = logging.getLogger("openai_gateway.access")
_LONGEST = 200  # characters of a path


class AccessLog:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        seen: dict[str, Any] = {"status": 0, "bytes": 0, "first": None, "whole": False}

        async def watched(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
            elif message["type"] == "http.response.body":
                if seen["first"] is None:
                    seen["first"] = time.perf_counter() - begun
                seen["bytes"] += len(message.get("body", b""))
                seen["whole"] = not message.get("more_body", False)

        try:
            await self._app(scope, receive, watched)
        finally:
            _log.info("request", extra={"request": _told(scope, seen, time.perf_counter() - begun)})


def _told(scope: Scope, seen: dict[str, Any], seconds: float) -> dict[str, Any]:
    record = RECORD.get()
    told = {
        "request_id": record.request_id,
        "key": record.key_id,
        "tenant": record.tenant,
        "client": (scope.get("client") or ("",))[0],
        "method": scope["method"],
        "path": scope["path"][:_LONGEST],
        "status": seen["status"],
        "complete": seen["whole"],
        "seconds": round(seconds, 4),
        "first_byte_seconds": None if seen["first"] is None else round(seen["first"], 4),
        "bytes": seen["bytes"],
    }
    if record.model:
        told["model"] = record.model
        told["prompt_tokens"], told["completion_tokens"] = record.prompt_tokens, record.completion_tokens
    return told


class JsonLines(logging.Formatter):
    """One object a line, the time first, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"
        return json.dumps({"time": stamp, **getattr(record, "request", {})})


def write_access_log(on: bool) -> None:
    """To standard output, a line as each request ends; off: nothing is written."""
    _log.propagate = False
    for handler in tuple(_log.handlers):
        _log.removeHandler(handler)
    handler = logging.StreamHandler(sys.stdout) if on else logging.NullHandler()
    handler.setFormatter(JsonLines())
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
