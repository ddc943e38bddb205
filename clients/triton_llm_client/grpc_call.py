"""A streaming gRPC call that outlives its reader: who goes away leaves a call that is ended by ``stop``, not reset.

Triton 2.50 takes a reset badly: in the moment a call ends it costs the server its count of requests in flight, so that
unloading the model never ends; and once in some ten thousand times its life
(``ModelStreamInferHandler::Process`` finds a call that is gone; mended in later Tritons). grpc.aio resets a call when a
task that reads it is cancelled, so each call is read by a task of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc.aio

from python_llm.errors import ServeError

__all__ = ["GrpcCall"]

_PATIENCE_SECONDS = 5.0  # for a server that does not end a call that was left; then it is reset


class GrpcCall:
    """The responses of a grpc.aio ``stream``, in order. Use it on one event loop."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._responses: deque[Any] = deque()
        self._failure: grpc.aio.AioRpcError | None = None
        self._wake: asyncio.Future[None] | None = None
        self._reading = asyncio.create_task(self._read())

    @property
    def over(self) -> bool:
        return self._reading.done()

    async def read(self) -> Any:
        """The next response, or grpc.aio.EOF. Raises AioRpcError when the call broke."""
        while not self._responses:
            if self.over:
                if self._failure is not None:
                    raise self._failure
                return grpc.aio.EOF
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return self._responses.popleft()

    async def leave(self, stop: Callable[[], Awaitable[None]]) -> None:
        """See the call to its end; ``stop`` asks the server for it."""
        try:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop(stop), _PATIENCE_SECONDS)
        finally:
            self._stream.cancel()  # one that has ended does not mind
            await asyncio.wait({self._reading})  # it would be left behind where the loop ends with this

    async def _stop(self, stop: Callable[[], Awaitable[None]]) -> None:
        with suppress(ServeError):  # it is over already, or not there yet
            await stop()
        await asyncio.wait({self._reading})

    async def _read(self) -> None:
        try:
            while (response := await self._stream.read()) is not grpc.aio.EOF:
                self._responses.append(response)
                self._notify()
        except grpc.aio.AioRpcError as failure:
            self._failure = failure
        except asyncio.CancelledError:  # the stream was reset
            pass
        finally:
            asyncio.get_running_loop().call_soon(self._notify)  # once the task is done

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
