"""The gateway's ASGI application: OpenAI's API, and TGI's, over an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

from openai_gateway.api_settings import ApiSettings
from openai_gateway.error_answers import add_error_answers
from openai_gateway.openapi import publish
from openai_gateway.routes import chat, completions, health, models, tgi
from openai_gateway.routes.page import add_page
from openai_gateway.telemetry import TELEMETRY
from openai_gateway.upstream import Upstream

__all__ = ["create_app"]

_DEFAULTS = ApiSettings()


def create_app(
    upstream: Upstream, settings: ApiSettings = _DEFAULTS, *, telemetry: TelemetryConfig = TELEMETRY
) -> FastAPI:
    """The application; it closes ``upstream`` when it is shut down.

    ``app.state.upstream`` and ``app.state.settings`` hold the arguments for the routes.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await upstream.close()

    app = FastAPI(title="triton-llm gateway", lifespan=lifespan, docs_url=None, redoc_url=None, telemetry=telemetry)
    app.state.upstream, app.state.settings = upstream, settings
    add_error_answers(app)
    for routes in (health, models, chat, completions, tgi):
        app.include_router(routes.router)
    add_page(app)
    publish(app)
    return app
