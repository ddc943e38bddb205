"""The gateway's process: from its settings to the end of its last stream."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys

import uvicorn
from starlette.types import ASGIApp

from openai_gateway.app import create_app
from openai_gateway.graceful import GracefulServer
from openai_gateway.metrics import GatewayMetrics
from openai_gateway.protection.access_log import write_access_log
from openai_gateway.protection.metered import Metered
from openai_gateway.protection.stack import protect
from openai_gateway.protection.uvicorn_options import uvicorn_options
from openai_gateway.routes import admin_models, admin_servers, metrics
from openai_gateway.settings import GatewaySettings
from openai_gateway.upstreams.fleet import Fleet
from openai_gateway.upstreams.pool import Pool
from openai_gateway.upstreams.pooled import PooledUpstream
from python_llm.errors import CallerMistake

__all__ = ["gateway_app", "serve"]

_PR_SET_PDEATHSIG = 1
_BACKLOG = 2048


def serve(settings: GatewaySettings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Raises:
        CallerMistake: the address cannot be listened on.
    """
    _end_with(settings.parent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells each look at a server
    with _listen(settings.host, settings.port) as listening:
        return asyncio.run(_serve(settings, listening))


def gateway_app(upstream: PooledUpstream, settings: GatewaySettings, counted: GatewayMetrics) -> ASGIApp:
    """The API, with what an operator asks beside it, behind its protection.

    Raises:
        CallerMistake: the protection cannot be had as it is set.
    """
    app = create_app(Metered(upstream, settings.protection.models), settings.api)
    app.include_router(metrics.router(counted))
    app.include_router(admin_servers.router(upstream.pool))
    app.include_router(admin_models.router(Fleet(upstream.pool)))
    return protect(app, settings.protection, host=settings.host, admin_key=settings.admin_key)


async def _serve(settings: GatewaySettings, listening: socket.socket) -> int:
    options = uvicorn_options(settings.protection)
    counted = GatewayMetrics()
    pool = Pool(settings.upstreams, settings.servers, counted, admin_key=settings.admin_key)
    await pool.start()
    upstream = PooledUpstream(pool, settings.servers, counted)
    config = uvicorn.Config(gateway_app(upstream, settings, counted), log_config=None, access_log=False, **options)
    host, port = listening.getsockname()[:2]
    write_access_log(settings.protection.access_log)
    scheme = "https" if settings.protection.tls_certificate else "http"
    print(f"gateway: {scheme}://{host}:{port}", flush=True)
    server = GracefulServer(config, pool.stop, settings.grace_seconds)
    await server.serve(sockets=[listening])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        raise CallerMistake(
            f"gateway port {port} on {host}: {getattr(error, 'strerror', None) or error}; choose another with --port "
            "or GATEWAY_PORT, or another --host."
        ) from error


def _end_with(parent: int) -> None:
    """SIGTERM when the launcher is gone, however it went."""
    if parent:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            raise CallerMistake(f"--parent {parent}: that process is gone already; start the gateway without it.")
