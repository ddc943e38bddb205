"""A stream of server-sent events that ends with its reader.

Until the first event there are no headers, so that a refusal has its own status; if that takes long, the headers are
sent with a comment, and a failure becomes an event. Format: HTML Living Standard, section 9.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from openai_gateway.disconnect import client_left
from openai_gateway.json_text import json_text
from python_llm.errors import EngineFailure, ServeError

__all__ = ["DONE", "EventStream", "event"]

_log = logging.getLogger(__name__)
_COMMENT = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

Events = AsyncGenerator[bytes, None]


def event(value: Any) -> bytes:
    return b"data: " + json_text(value).encode() + b"\n\n"


class EventStream(Response):
    """Sends ``events`` as each comes, and a comment after ``keep_alive`` seconds without one.

    When the client leaves, ``events`` is closed: it must close what it reads. ``failed`` writes the events of an error
    that comes too late for a status.
    """

    media_type = "text/event-stream"

    def __init__(self, events: Events, *, failed: Callable[[ServeError], bytes], keep_alive: float) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._failed = failed
        self._keep_alive = keep_alive
        self._begun = False
        self._last = 0.0
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reader = asyncio.create_task(client_left(receive))
        writer = asyncio.create_task(self._write_all(send))
        comments = asyncio.create_task(self._write_comments(send))
        tasks = (reader, writer, comments)
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not writer.cancelled():
            writer.result()

    async def _write_all(self, send: Send) -> None:
        try:
            async with aclosing(self._events) as events:
                async for one in events:
                    await self._write(send, one)
        except ServeError as error:
            await self._write_failure(send, error)
        except OSError:  # the client left in the middle of a write
            return
        except Exception:
            if not self._begun:
                raise
            _log.exception("a stream failed")
            failure = EngineFailure("internal", "the gateway failed at this request; its log says where: report it.")
            await self._write_failure(send, failure)
        await self._write(send, b"", more=False)

    async def _write_failure(self, send: Send, error: ServeError) -> None:
        if not self._begun:
            raise error
        await self._write(send, self._failed(error))

    async def _write(self, send: Send, data: bytes, *, more: bool = True) -> None:
        async with self._lock:
            if not self._begun:
                self._begun = True
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": data, "more_body": more})
            self._last = asyncio.get_running_loop().time()

    async def _write_comments(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        with suppress(OSError):
            while True:
                await asyncio.sleep(self._last + self._keep_alive - loop.time())
                if loop.time() - self._last >= self._keep_alive:
                    await self._write(send, _COMMENT)
