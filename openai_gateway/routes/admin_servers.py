"""The servers behind the gateway, for their operator: who is there, and who goes.

``drain`` is the spot notice: the server gets nothing more, and its streams go on elsewhere.
"""

from __future__ import annotations

import hmac
from typing import Any

from fastapi import APIRouter, Depends
from starlette.requests import Request

from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.server import Server
from python_llm.errors import InvalidRequest
from python_llm.settings import ADMIN_KEY_HEADER

__all__ = ["router"]


def router(pool: Pool, admin_key: str) -> APIRouter:
    """With an ``admin_key`` every request must bring it; without one only this machine may ask."""

    def check(request: Request) -> None:
        given = request.headers.get(ADMIN_KEY_HEADER, "")
        if admin_key and not hmac.compare_digest(given.encode(), admin_key.encode()):
            raise InvalidRequest("permission_denied", f"header '{ADMIN_KEY_HEADER}': it must hold the admin key.")
        host = request.client.host if request.client else ""
        if not admin_key and not (host.startswith("127.") or host == "::1"):
            raise InvalidRequest("permission_denied", "admin routes: without an admin key only this machine may ask.")

    routes = APIRouter(prefix="/admin/servers", tags=["operation"], dependencies=[Depends(check)])

    @routes.get("", include_in_schema=False)
    async def servers() -> list[dict[str, Any]]:
        return [_told(server) for server in pool.servers]

    @routes.post("/{name}/drain", include_in_schema=False)
    async def drain(name: str) -> dict[str, Any]:
        return _told(pool.drain(name))

    @routes.post("/{name}/restore", include_in_schema=False)
    async def restore(name: str) -> dict[str, Any]:
        return _told(pool.restore(name))

    return routes


def _told(server: Server) -> dict[str, Any]:
    return {
        "name": server.name,
        "phase": server.health.phase,
        "trouble": server.trouble,
        "breaker": server.breaker.state,
        "streams": server.running,
        "load_tokens": round(server.load),
        "drained": server.drained,
        "models": sorted(server.models),
    }
