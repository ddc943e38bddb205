"""uvicorn's HTTP/1.1 with a deadline for each request's head, and for what follows a refusal.

uvicorn 0.54 waits without end for the first request of a connection, and for any head of which a byte came; a few
thousand such connections, which cost a client nothing, would use up the process's files. Nor does a body that was
refused before it was whole ever end, while bytes of it come.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["http_protocol"]


def http_protocol(header_seconds: float) -> type[asyncio.Protocol]:
    """For uvicorn's ``http``."""

    class HeaderDeadline(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None
        _rest_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_head()
            self._watch_rest()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_head()
            self._forget_rest()
            super().connection_lost(exc)

        def _watch_head(self) -> None:
            """Between requests uvicorn's keep-alive timer runs, and ends with the next head's first byte."""
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                self._forget_head()
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(header_seconds, self._too_slow)

        def _forget_head(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _watch_rest(self) -> None:
            """A client that is still sending must get to read the answer: what is left is taken, for so long."""
            if self.conn.our_state is not h11.DONE or self.conn.their_state is not h11.SEND_BODY:
                self._forget_rest()
            elif self._rest_timer is None:
                self._rest_timer = self.loop.call_later(header_seconds, self.transport.close)

        def _forget_rest(self) -> None:
            if self._rest_timer is not None:
                self._rest_timer.cancel()
                self._rest_timer = None

        def _too_slow(self) -> None:
            self._head_timer = None
            if not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                self.transport.close()

    return HeaderDeadline
