"""Clients that leave before their answer is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive

from python_llm.errors import RequestCancelled

__all__ = ["client_left", "unless_client_leaves"]

T = TypeVar("T")


async def client_left(receive: Receive) -> None:
    """Return when the client has left. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_client_leaves(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` returns; when the client leaves, ``work`` is cancelled.

    Raises:
        RequestCancelled: the client left; nobody reads it.
    """
    worker = asyncio.create_task(work)
    reader = asyncio.create_task(client_left(request.receive))
    try:
        await asyncio.wait((worker, reader), return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            raise RequestCancelled("client_left", "the client left before its answer was there.")
        return worker.result()
    finally:
        worker.cancel()
        reader.cancel()
        await asyncio.gather(worker, reader, return_exceptions=True)
