"""What OpenAI's two routes have in common."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request

from openai_gateway.errors import error_body
from openai_gateway.request_record import RECORD
from openai_gateway.schemas.fields import SamplingFields
from openai_gateway.serving import settings_of
from openai_gateway.sse import DONE, EventStream, event
from python_llm.errors import InvalidRequest, ServeError
from triton_llm_client import Chunk, new_request_id

__all__ = ["Chunks", "answer_id", "answer_stream", "check_stream_options", "wants_usage"]

Chunks = AsyncGenerator[tuple[int, Chunk], None]  # with the number of the question


def answer_id(request: Request) -> str:
    """Of the generator's request too: one that no other has. It begins with the id that the client gave, if it did."""
    record = RECORD.get(None)
    if record is None:
        return new_request_id()
    return f"{record.request_id}-{new_request_id()[:12]}" if record.named else record.request_id


def check_stream_options(body: SamplingFields) -> None:
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options", "stream_options: stream is not true; leave them out, or stream.")


def wants_usage(body: SamplingFields) -> bool:
    return bool(body.stream_options and body.stream_options.include_usage)


def answer_stream(request: Request, events: AsyncGenerator[bytes, None]) -> EventStream:
    """``events`` and the mark of their end."""
    return EventStream(_done(events), failed=_failed, keep_alive=settings_of(request).keep_alive_seconds)


async def _done(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for one in events:
            yield one
    yield DONE


def _failed(error: ServeError) -> bytes:
    return event(error_body(error)) + DONE
