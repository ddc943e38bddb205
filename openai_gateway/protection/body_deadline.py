"""A body that dribbles in is given up, so that nobody holds memory and a place for nothing."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openai_gateway.protection.refusals import TooSlow

__all__ = ["BodyDeadline"]


class BodyDeadline:
    """``seconds`` for the whole body, from the head's arrival; who reads it then gets TooSlow."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        deadline, whole = loop.time() + self._seconds, False

        async def in_time() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline - loop.time())
            except asyncio.TimeoutError as error:
                raise TooSlow(self._seconds) from error
            whole = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        await self._app(scope, in_time, send)
