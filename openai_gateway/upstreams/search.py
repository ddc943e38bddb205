"""The servers that one request is sent to, one after the other, until it is answered or its time is up."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from openai_gateway.upstreams.choice import choose
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.retries import is_to_blame, may_go_elsewhere, never_arrived
from openai_gateway.upstreams.server import Server
from openai_gateway.upstreams.settings import UpstreamSettings
from python_llm.errors import NotFound, RequestCancelled, ServeError, Unavailable
from triton_llm_client import ServerUnreachable

__all__ = ["Search"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Search:
    """`next` gives a server; `failed` says how that went. Each server is asked once before any is asked again.

    A request of which nothing was streamed goes on only while a server hints when to ask again; a broken stream, for
    which somebody waits in the middle of an answer, until some server takes it or ``seconds`` have passed.
    """

    def __init__(
        self, pool: Pool, settings: UpstreamSettings, model: str, version: str, prefix: str, *, broken: bool
    ) -> None:
        self._pool, self._settings = pool, settings
        self._model, self._version, self._prefix = model, version, prefix
        self._broken = broken
        self._pause = _FIRST_PAUSE
        self._tried: set[str] = set()
        self._failures = 0
        self._error: ServeError | None = None
        self._draw = random.Random()
        self._deadline = time.monotonic() + (settings.resume_seconds if broken else settings.retry_seconds)

    async def next(self, work: float) -> Server:
        """Raises ServeError: nobody can answer, or nobody could in time."""
        while True:
            if self._pool.stopped is not None:
                raise self._pool.stopped
            able = self._pool.able(self._model, self._version)
            fresh = [server for server in able if server.name not in self._tried]
            if fresh:
                return choose(fresh, work, self._prefix, self._settings.load_bound, self._draw)
            await self._wait()
            self._tried.clear()

    def failed(self, server: Server, error: ServeError) -> None:
        """Raises the error where no other server may be asked."""
        self._error = error
        self._tried.add(server.name)
        self._failures += is_to_blame(error) and not never_arrived(error)
        if not may_go_elsewhere(error) or self._failures >= self._settings.most_failures:
            raise error

    async def _wait(self) -> None:
        hint = self._error.retry_after if isinstance(self._error, Unavailable) else None
        seconds = self._pause if hint is None else hint
        if (hint is None and not self._broken) or time.monotonic() + seconds > self._deadline:
            raise self._last_word()
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        await self._pool.wait_for_change(seconds if hint is not None else seconds * random.uniform(0.5, 1.0))

    def _last_word(self) -> ServeError:
        """What the last server said, where it said anything."""
        if self._error is None or isinstance(self._error, (ServerUnreachable, RequestCancelled)):
            return self._nobody()
        return self._error

    def _nobody(self) -> ServeError:
        servers: Sequence[Server] = self._pool.servers
        known = sorted({name for server in servers for name in server.models})
        if known and self._model not in known:
            return NotFound("unknown_model", f"model '{self._model}': not served; known models: {', '.join(known)}.")
        why = "; ".join(f"{server.name}: {server.trouble or f'does not serve {self._model}'}" for server in servers)
        return Unavailable("no_server", f"servers: none takes requests for '{self._model}' now ({why}); ask later.")
