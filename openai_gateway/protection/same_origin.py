"""Without keys, web pages of others must not use the gateway through the browser of somebody who can reach it.

A page anywhere may send a request to 127.0.0.1, with no question asked as long as it does not read the answer; and a
name that an attacker lets point at 127.0.0.1 makes its page the same origin. ``Origin`` tells the first, ``Host`` the
second. Where keys are asked for, a page does not have one, and none of this is needed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from openai_gateway.error_answers import error_answer
from openai_gateway.protection.refusals import Forbidden

__all__ = ["THIS_MACHINE", "SameOrigin", "host_of"]

# What a browser or a container of this machine calls it; nobody else can make these names point elsewhere.
THIS_MACHINE = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
_SAFE = ("GET", "HEAD", "OPTIONS")


class SameOrigin:
    """``hosts``: names the gateway goes by, beside addresses; empty: any. ``origins``: of pages that may ask."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope) if scope["type"] == "http" else None
        if refused is not None:
            await error_answer(refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> Forbidden | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts and host and not self._goes_by(host_of(host)):
            return Forbidden(
                f"header 'Host': '{host[:80]}' is no name of this gateway; name it with --allowed-host, or ask for "
                "keys with --keys."
            )
        if origin is None or scope["method"] in _SAFE or self._may_ask(origin, host):
            return None
        return Forbidden(
            f"header 'Origin': pages of '{origin[:80]}' may not use a gateway without keys; allow them with "
            "--cors-origin, or ask for keys with --keys."
        )

    def _goes_by(self, name: str) -> bool:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True  # an address cannot be made to point elsewhere

    def _may_ask(self, origin: str, host: str) -> bool:
        same = origin.partition("://")[2].lower() == host.lower()
        return same or origin in self._origins or "*" in self._origins


def host_of(header: str) -> str:
    """``Host`` without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()
