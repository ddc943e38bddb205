"""Every request has an id: the client's own, or one made here; the answer says it, and what is logged has it."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openai_gateway.error_answers import error_answer
from openai_gateway.request_record import RECORD, RequestRecord
from python_llm.errors import InvalidRequest
from triton_llm_client import new_request_id

__all__ = ["HEADER", "RequestIds"]

HEADER = "X-Request-Id"
_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = Headers(scope=scope).get(HEADER, "")
        named = bool(_FORM.fullmatch(said))
        record = RequestRecord(said if named else new_request_id(), named)
        token = RECORD.set(record)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = record.request_id
            await send(message)

        try:
            if said and not named:
                await error_answer(_refused(said))(scope, receive, with_id)
            else:
                await self._app(scope, receive, with_id)
        finally:
            RECORD.reset(token)


def _refused(said: str) -> InvalidRequest:
    return InvalidRequest(
        "invalid_request_id",
        f"header '{HEADER}': {said[:80]!a}; it must be 1 to 64 of the characters A-Z a-z 0-9 . _ -, or be left out.",
    )
