"""Counts requests against their caller's limits, and tells what is left of them."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openai_gateway.error_answers import error_answer
from openai_gateway.protection.keys import ApiKey
from openai_gateway.protection.limits import Book
from openai_gateway.protection.paths import path_of
from openai_gateway.protection.refusals import OverLimit
from openai_gateway.protection.settings import Limits
from openai_gateway.request_record import RECORD

__all__ = ["Allowances"]


class Allowances:
    """Behind Authentication. What asks for an answer (POST, but for the operator's) is counted; the rest is not."""

    def __init__(self, app: ASGIApp, book: Book, limits: Limits) -> None:
        """``limits``: of keys that do not say their own, and of everybody together without keys."""
        self._app, self._book, self._limits = app, book, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or path_of(scope).startswith("/admin/"):
            await self._app(scope, receive, send)
            return
        key: ApiKey | None = scope["state"]["api_key"]
        account = self._book.account(key.name if key else "", _limits(key, self._limits))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(account.headers())
            await send(message)

        try:
            account.enter()
        except OverLimit as error:
            await error_answer(error)(scope, receive, with_headers)
            return
        try:
            if record := RECORD.get(None):
                record.allowance = account
            await self._app(scope, receive, with_headers)
        finally:
            account.leave()


def _limits(key: ApiKey | None, default: Limits) -> Limits:
    if key is None:
        return default
    said = {name: getattr(key, name) for name in Limits.__dataclass_fields__}
    return Limits(**{name: getattr(default, name) if value is None else value for name, value in said.items()})
