"""The models of every server, for their operator: which there are, in which state; load one, unload one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from openai_gateway.routes.admin_only import admin_only
from openai_gateway.upstreams.fleet import Fleet, FleetModel

__all__ = ["router"]


def router(fleet: Fleet) -> APIRouter:
    routes = APIRouter(prefix="/admin/models", tags=["operation"], dependencies=[Depends(admin_only)])

    @routes.get("", include_in_schema=False)
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_told(model) for model in await fleet.models()]}

    @routes.post("/{name}/load", include_in_schema=False)
    async def load(name: str) -> dict[str, Any]:
        return _told(await fleet.load(name))

    @routes.post("/{name}/unload", include_in_schema=False)
    async def unload(name: str) -> dict[str, Any]:
        return _told(await fleet.unload(name))

    return routes


def _told(model: FleetModel) -> dict[str, Any]:
    states = model.states
    rows = {row.version: row for server in model.rows.values() for row in server if row.version}
    best = next((state for state in ("READY", "LOADING", "UNLOADING") if state in states.values()), "UNAVAILABLE")
    return {
        "id": model.name,
        "state": best.lower(),
        "versions": [
            {"version": row.version, "state": (row.state or "UNAVAILABLE").lower(), "reason": row.reason}
            for row in rows.values()
        ],
        "servers": {server: state.lower() for server, state in states.items()},
    }
