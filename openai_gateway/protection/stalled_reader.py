"""A client that stops reading its answer is cut, so that its request does not hold a place at the generator."""

from __future__ import annotations

import asyncio
import sys

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["StalledReader"]


class StalledReader:
    """A send that waits for ``seconds`` counts as the client having left. One timer a request, none a message."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        watch = _Watch(self._seconds)

        async def watched(message: Message) -> None:
            with watch:
                await send(message)

        try:
            await self._app(scope, receive, watched)
        except OSError:
            if not watch.cut:
                raise
        finally:
            watch.close()


class _Watch:
    """Cancels the task inside its ``with`` when that lasts too long, and raises OSError there. One task at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self._task: asyncio.Task[object] | None = None
        self.cut = self._cancelled = False
        self._timer = self._loop.call_later(seconds, self._look)

    def __enter__(self) -> None:
        self._since, self._task = self._loop.time(), asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._since = None
        if self._cancelled and kind is asyncio.CancelledError:
            self._cancelled = False
            if sys.version_info >= (3, 11) and self._task is not None:
                self._task.uncancel()
            raise OSError(f"the client took nothing of its answer for {self._seconds:g} s")

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        waited = 0.0 if self._since is None else self._loop.time() - self._since
        if waited >= self._seconds and self._task is not None:
            self.cut = self._cancelled = True
            self._task.cancel()
            waited = 0.0
        self._timer = self._loop.call_later(self._seconds - waited, self._look)
