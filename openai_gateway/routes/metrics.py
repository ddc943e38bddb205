"""What Prometheus reads."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from openai_gateway.metrics import CONTENT_TYPE, GatewayMetrics

__all__ = ["router"]


def router(counted: GatewayMetrics) -> APIRouter:
    routes = APIRouter(tags=["operation"])

    @routes.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(counted.render(), media_type=None, headers={"Content-Type": CONTENT_TYPE})

    return routes
