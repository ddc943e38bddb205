"""A request's body: bounded, read and checked against its schema."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, TypeVar

import anyio.to_thread
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from openai_gateway.errors import BodyTooLarge
from openai_gateway.protection.json_size import check_json_size
from openai_gateway.serving import settings_of
from python_llm.errors import InvalidRequest, RequestCancelled

__all__ = ["parse_body", "read_body"]

Body = TypeVar("Body", bound=BaseModel)

_ON_THE_LOOP = 32_768  # bytes that are parsed at once; longer ones go to a thread
_SHOWN = 60
_WHOLE = "half a surrogate pair is no character: send whole ones."
_UNION_MEMBERS = frozenset({"str", "int", "float", "bool", "FunctionChoice", "dict", "list"})


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body as ``kind``.

    Raises:
        InvalidRequest: too long, no JSON, or not what the schema says; the first fault and all unknown names are told.
    """
    raw = await _bytes(request, settings_of(request).max_body_bytes)
    if len(raw) <= _ON_THE_LOOP:
        return parse_body(raw, kind)
    return await anyio.to_thread.run_sync(_parse_long_body, raw, kind)


def parse_body(raw: bytes, kind: type[Body]) -> Body:
    """As `read_body`, of the bytes."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise _refused(error.errors(include_url=False), kind) from error


def _parse_long_body(raw: bytes, kind: type[Body]) -> Body:
    check_json_size(raw)
    return parse_body(raw, kind)


async def _bytes(request: Request, limit: int) -> bytes:
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > limit:
        raise BodyTooLarge(limit)
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise BodyTooLarge(limit)
            parts.append(part)
    except ClientDisconnect as error:
        raise RequestCancelled("client_left", "body: the client left before it was complete.") from error
    return b"".join(parts)


def _refused(errors: Sequence[Any], kind: type[BaseModel]) -> InvalidRequest:
    unknown = [error for error in errors if error["type"] == "extra_forbidden"]
    if unknown:
        names = ", ".join(f"'{_place(error['loc'])}'" for error in unknown[:10])
        place = _place(unknown[0]["loc"])
        return InvalidRequest("unknown_parameter", f"{place}: not known: {names}; {_nearest(unknown[0], kind)}")
    first = errors[0]
    if first["type"] == "json_invalid":
        why = first["ctx"]["error"]
        remedy = _WHOLE if "hex escape" in why else "send a JSON object."
        return InvalidRequest("invalid_json", f"body: it is no JSON: {why}; {remedy}")
    place = _place(first["loc"])
    if first["type"] == "missing":
        return InvalidRequest("missing_required_parameter", f"{place}: missing; it must be given.")
    rules = "; ".join(dict.fromkeys(error["msg"] for error in errors if error["loc"][:1] == first["loc"][:1]))
    return InvalidRequest("invalid_type", f"{place}: {_shown(first['input'])}: {rules}.")


def _place(location: Sequence[int | str]) -> str:
    """``tools[0].function``; what pydantic calls the members of a union is left out."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not text:
            text = part
        elif part.isidentifier() and part not in _UNION_MEMBERS:
            text += f".{part}"
    return text or "body"


def _nearest(error: Any, kind: type[BaseModel]) -> str:
    location = error["loc"]
    close = difflib.get_close_matches(str(location[-1]), list(kind.model_fields), n=1) if len(location) == 1 else []
    return f"did you mean '{close[0]}'?" if close else "leave it out; /openapi.json lists what is known."


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
