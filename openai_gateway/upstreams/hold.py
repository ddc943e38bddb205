"""Requests that wait for a server to come, where all are away: what a fleet that scales to zero is woken by."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any

from openai_gateway.metrics import GatewayMetrics
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.settings import UpstreamSettings

__all__ = ["Hold"]

_LOOK_SECONDS = 1.0


class Hold:
    """A wait ends when some server is up, or ``hold_seconds`` have passed; beyond ``hold_requests`` none begins.

    What follows for the request is not its business: it is asked, or refused, as if it had come then.
    """

    def __init__(self, pool: Pool, settings: UpstreamSettings, metrics: GatewayMetrics) -> None:
        self._pool, self._settings = pool, settings
        self._held = 0
        metrics.watch_held(lambda: self._held)

    def wait(self) -> Coroutine[Any, Any, None] | None:
        """None where a request need not wait, or may not: nearly always."""
        return self._wait() if self._may_wait() else None

    def _may_wait(self) -> bool:
        return bool(self._settings.hold_seconds) and self._held < self._settings.hold_requests and not self._over()

    async def _wait(self) -> None:
        if not self._may_wait():  # others came at once, and began before
            return
        deadline = time.monotonic() + self._settings.hold_seconds
        self._held += 1
        try:
            while not self._over() and (left := deadline - time.monotonic()) > 0:
                await self._pool.wait_for_change(min(left, _LOOK_SECONDS))
        finally:
            self._held -= 1

    def _over(self) -> bool:
        up = any(not server.trouble and not server.leaving for server in self._pool.servers)
        return up or self._pool.stopped is not None
