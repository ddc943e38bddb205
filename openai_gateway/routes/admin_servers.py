"""The servers behind the gateway, for their operator: who is there, and who goes.

``drain`` is the spot notice: the server gets nothing more, and its streams go on elsewhere.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from openai_gateway.routes.admin_only import admin_only
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.server import Server

__all__ = ["router"]


def router(pool: Pool) -> APIRouter:
    routes = APIRouter(prefix="/admin/servers", tags=["operation"], dependencies=[Depends(admin_only)])

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
