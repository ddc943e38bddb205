"""Every failure of a request becomes an answer here, in OpenAI's shape."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from openai_gateway.errors import error_body, retry_after, status_of
from python_llm.errors import EngineFailure, InvalidRequest, NotFound, ServeError

__all__ = ["add_error_answers", "error_answer"]

_log = logging.getLogger(__name__)


def add_error_answers(app: FastAPI) -> None:
    app.add_exception_handler(ServeError, _of_ours)
    app.add_exception_handler(HTTPException, _of_the_router)
    app.add_exception_handler(Exception, _of_a_bug)


def error_answer(error: ServeError, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    said = dict(headers or {})
    if (seconds := retry_after(error)) is not None:
        said["Retry-After"] = seconds
    return JSONResponse(error_body(error), status_of(error), said)


async def _of_ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServeError)
    return error_answer(error)


async def _of_the_router(request: Request, error: Exception) -> JSONResponse:
    """No such path, or no such method."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    if error.status_code == 404:
        return error_answer(NotFound("unknown_url", f"url '{where}': there is nothing here; see /openapi.json."))
    refused = error_answer(
        InvalidRequest("method_not_allowed", f"url '{where}': {error.detail}."), headers=error.headers
    )
    refused.status_code = error.status_code
    return refused


async def _of_a_bug(request: Request, error: Exception) -> JSONResponse:
    """Logged by the server as well, with its trace."""
    _log.error("%s %s failed", request.method, request.url.path)
    return error_answer(EngineFailure("internal", "the gateway failed at this request; its log says where: report it."))
