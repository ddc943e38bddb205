"""The OpenAPI page's entries for bodies that the routes read themselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

__all__ = ["answers", "publish", "takes"]

_REF = "#/components/schemas/{model}"
_BODIES: list[type[BaseModel]] = []
_REFUSALS = {
    400: "The request cannot be answered as it is; the message says why.",
    401: "No key, or one that is not known.",
    403: "The key, or the page that asks, may not do this.",
    404: "No such model; the known are named.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    429: "Over a limit; Retry-After says when to ask again.",
    500: "The server or the gateway failed at the request.",
    503: "No server takes requests; Retry-After says when to ask again.",
    504: "The request's own deadline passed before it began.",
}


def takes(kind: type[BaseModel]) -> dict[str, Any]:
    """For a route's ``openapi_extra``: its JSON body."""
    _BODIES.append(kind)
    schema = {"$ref": _REF.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answers(invalid: int = 400) -> dict[int | str, dict[str, Any]]:
    """For a route's ``responses``. ``invalid``: its status for a request that cannot be answered as it is."""
    return {invalid if status == 400 else status: {"description": text} for status, text in _REFUSALS.items()}


def publish(app: FastAPI) -> None:
    """Put the bodies' schemas on the page; it is made once, when it is asked for."""

    def make() -> dict[str, Any]:
        if app.openapi_schema is None:
            page = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _, schemas = models_json_schema([(kind, "validation") for kind in _BODIES], ref_template=_REF)
            page.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
            app.openapi_schema = page
        return app.openapi_schema

    app.openapi = make  # type: ignore[method-assign]
