"""Whether the gateway lives, and whether it can answer."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from openai_gateway.caller import caller_of
from openai_gateway.serving import upstream_of

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/health/live")
async def live() -> dict[str, bool]:
    """The process answers."""
    return {"live": True}


@router.get("/health/ready", responses={503: {"description": "No server takes requests."}})
async def ready(request: Request) -> JSONResponse:
    """Some server takes requests; ``servers`` says of each why it does not, or nothing. It is for those who may read
    the metrics too.
    """
    said = await upstream_of(request).ready()
    servers = dict(said.servers) if "metrics" in caller_of(request).scopes else {}
    return JSONResponse({"ready": said.ready, "servers": servers}, 200 if said.ready else 503)
