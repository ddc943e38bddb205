"""The chat page: plain files, under a policy that lets nothing else run or load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

__all__ = ["HEADERS", "STATIC", "add_page"]

STATIC = Path(__file__).parents[1] / "static"

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",  # an answer's text can never become markup, not even by a mistake
    "trusted-types 'none'",
)

HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",  # asked again each time, answered by 304: an update shows at the next load
}


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(HEADERS)
        return response


def add_page(app: Starlette) -> None:
    """The page at ``/`` and its files at ``/static``; both are for everyone, they hold no secret."""
    files = _PageFiles(directory=STATIC)

    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    app.add_route("/", page, methods=["GET"], include_in_schema=False)
    app.mount("/static", files, name="static")
