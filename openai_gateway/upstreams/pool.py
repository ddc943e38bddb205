"""The servers: found by address or DNS name, looked at every second, told apart by what they serve."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import httpx

from openai_gateway.metrics import GatewayMetrics
from openai_gateway.telemetry import trace_headers
from openai_gateway.upstreams.address import Address
from openai_gateway.upstreams.breaker import Breaker
from openai_gateway.upstreams.facts import read_facts
from openai_gateway.upstreams.health import Health, look
from openai_gateway.upstreams.names import resolve
from openai_gateway.upstreams.server import Server
from openai_gateway.upstreams.settings import UpstreamSettings
from openai_gateway.upstreams.triton_rpc import TritonRpc
from python_llm.errors import NotFound, ServeError, Unavailable
from triton_llm_client import ServerUnreachable
from triton_llm_client.transport import Transport, open_transport

__all__ = ["Pool"]

_log = logging.getLogger(__name__)
_open = partial(open_transport, headers=trace_headers)


class Pool:
    """`start` it on the event loop that uses it; `close` it there. ``stopped``: why nothing is begun any more."""

    def __init__(
        self,
        addresses: Sequence[Address],
        settings: UpstreamSettings,
        metrics: GatewayMetrics,
        *,
        admin_key: str = "",
        client: httpx.AsyncClient | None = None,
        transport: Callable[[str], Transport] = _open,
    ) -> None:
        """``client`` looks at health ports; ``transport`` opens the wire to a server's URL."""
        self._addresses = tuple(addresses)
        self._settings = settings
        self._metrics = metrics
        self._admin_key = admin_key
        self._servers: dict[str, Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client = client or httpx.AsyncClient()
        self._transport = transport
        self._changed = asyncio.Event()
        self.stopped: ServeError | None = None

    @property
    def servers(self) -> Sequence[Server]:
        return tuple(self._servers.values())

    async def start(self) -> None:
        """Find the servers and look at each once; from then on both go on by themselves."""
        await asyncio.gather(*(self._find(address) for address in self._addresses))
        await asyncio.gather(*(server.seen.wait() for server in self.servers))
        for address in self._addresses:
            if address.resolves:
                self._spawn(self._again(partial(self._find, address), self._settings.resolve_seconds))

    def able(self, model: str, version: str = "") -> list[Server]:
        """The servers that take a request for the model now; those with nothing to complain of, if there are any."""
        able = [server for server in self._servers.values() if server.takes(model, version)]
        return [server for server in able if not server.health.reasons] or able

    def versions(self, model: str) -> set[str]:
        """The versions of the model for which some server takes requests now."""
        facts = [server.models.get(model) for server in self._servers.values() if server.takes(model)]
        return {name for known in facts if known for name, state in known.versions.items() if state == "READY"}

    def drain(self, name: str) -> Server:
        """Send the server nothing more; its streams go on elsewhere where that is possible. Raises NotFound."""
        server = self._server(name)
        server.drained = True
        self._hand_over(server)
        return server

    def restore(self, name: str) -> Server:
        """Take back a `drain`. Raises NotFound."""
        server = self._server(name)
        server.drained = False
        self._tell()
        return server

    async def look_again(self, server: Server) -> None:
        """Read its models anew: somebody changed them."""
        server.facts_due = 0.0
        await self._look(server)

    async def wait_for_change(self, seconds: float) -> None:
        """Until some server changed, at most so long."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def stop(self, cause: ServeError) -> None:
        """End what runs with this error, and begin nothing more."""
        self.stopped = cause
        for server in self.servers:
            server.interrupt(cause)
        self._tell()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self.servers))
        await self._client.aclose()

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            raise NotFound("unknown_server", f"server '{name}': not known; servers: {', '.join(self._servers)}.")
        return self._servers[name]

    async def _find(self, address: Address) -> None:
        """What the address stands for now: new servers come, others retire. A name that fails changes nothing."""
        found = await resolve(address)
        if found is None:
            _log.warning("upstream '%s': the name cannot be resolved now", address.name)
            return
        for each in found:
            server = self._servers.get(each.name) or self._add(each, address)
            server.retired = False
        names = {each.name for each in found}
        for server in self.servers:
            if server.origin == address and server.name not in names:
                server.retired = True

    def _add(self, address: Address, origin: Address) -> Server:
        rpc = TritonRpc(address.name, tls=address.tls, admin_key=self._admin_key)
        breaker = Breaker(
            self._settings.breaker_failures,
            self._settings.breaker_seconds,
            partial(self._breaker_changed, address.name),
        )
        server = Server(address, origin, self._transport(address.url), rpc, breaker)
        self._servers[server.name] = server
        self._metrics.watch_server(server)
        self._spawn(self._watch(server))
        return server

    def _breaker_changed(self, name: str, state: str) -> None:
        _log.warning("server '%s': its breaker is %s", name, state)
        self._metrics.breaker_changed(name, state)

    async def _watch(self, server: Server) -> None:
        """Look at it until it retired and is idle."""
        while not (server.retired and not server.running):
            await self._look(server)
            server.seen.set()
            await asyncio.sleep(self._settings.health_seconds)
        del self._servers[server.name]
        self._metrics.forget_server(server)
        await server.close()

    async def _look(self, server: Server) -> None:
        settings, before = self._settings, server.health
        seen = await look(server.address.health, server.rpc, self._client, settings.health_timeout_seconds)
        server.missed = 0 if seen.answers else server.missed + 1
        if not seen.answers and before.answers and server.missed < settings.missed_looks:
            return
        server.health = seen
        await self._read_facts(server, before)
        if not seen.answers and server.running:
            server.interrupt(ServerUnreachable(server.address.url, f"it is silent: {'; '.join(seen.reasons)}"))
        if server.leaving:
            self._hand_over(server)
        if (seen.phase, seen.models) != (before.phase, before.models):
            _log.info("server '%s': %s%s", server.name, seen.phase, f" ({server.trouble})" if server.trouble else "")
            self._tell()

    async def _read_facts(self, server: Server, before: Health) -> None:
        now = asyncio.get_running_loop().time()
        due = now >= server.facts_due or server.health.models != before.models
        if server.health.phase == "ready" and due:
            server.facts_due = now + self._settings.facts_seconds
            server.models = await read_facts(server.rpc, server.health, self._settings.health_timeout_seconds)

    def _hand_over(self, server: Server) -> None:
        """Streams of a server that goes are continued where another can; the rest finish where they are."""

        def elsewhere(model: str, version: str) -> bool:
            return any(other is not server for other in self.able(model, version))

        server.interrupt(Unavailable("draining", f"server '{server.name}': it drains."), elsewhere)

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _again(self, work: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await work()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
