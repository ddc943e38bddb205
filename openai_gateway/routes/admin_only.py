"""The door of the operator's routes."""

from __future__ import annotations

from starlette.requests import Request

from openai_gateway.caller import caller_of
from python_llm.errors import InvalidRequest

__all__ = ["admin_only"]


async def admin_only(request: Request) -> None:
    """A dependency. The protection in front says the same sooner; without one, nobody is let in.

    Raises:
        InvalidRequest: 403.
    """
    if "admin" not in caller_of(request).scopes:
        raise InvalidRequest("permission_denied", f"url '{request.url.path}': it is an operator's; use an admin key.")
