"""The application behind its protection, called without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp

from openai_gateway.app import create_app
from openai_gateway.metrics import GatewayMetrics
from openai_gateway.protection.keys import ApiKey, hash_of
from openai_gateway.protection.metered import Metered
from openai_gateway.protection.settings import ProtectionSettings
from openai_gateway.protection.stack import protect
from openai_gateway.routes import metrics
from plain_upstream import PlainUpstream

ASK = {"model": "m", "prompt": "hi", "max_tokens": 3}


@dataclass
class Guarded:
    app: ASGIApp
    client: httpx.AsyncClient
    upstream: PlainUpstream

    async def ask(self, key: str = "", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={**ASK, **fields}, headers=bearer(key))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def keys(**by_name: dict[str, Any]) -> str:
    """Lines of a keys file: each key is its own name."""
    return "\n".join(ApiKey(name=name, hash=hash_of(name), **fields).line() for name, fields in by_name.items())


def guarded_app(settings: ProtectionSettings, upstream: PlainUpstream, **where: Any) -> ASGIApp:
    app = create_app(Metered(upstream, settings.models))
    app.include_router(metrics.router(GatewayMetrics()))
    return protect(app, settings, **where)


@asynccontextmanager
async def guarded(
    *, host: str = "127.0.0.1", admin_key: str = "", client: str = "127.0.0.1", **settings: Any
) -> AsyncIterator[Guarded]:
    upstream = PlainUpstream()
    app = guarded_app(ProtectionSettings(**settings), upstream, host=host, admin_key=admin_key)
    wire = httpx.ASGITransport(app, client=(client, 40000))
    async with httpx.AsyncClient(transport=wire, base_url="http://127.0.0.1:9000") as http:
        yield Guarded(app, http, upstream)
