"""The routes of Text Generation Inference, for clients that were written for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from openai_gateway.answering import Chunks, answer_id
from openai_gateway.body import Body, read_body
from openai_gateway.caller import caller_of
from openai_gateway.disconnect import unless_client_leaves
from openai_gateway.errors import retry_after, status_of
from openai_gateway.json_text import JsonAnswer
from openai_gateway.openapi import answers, takes
from openai_gateway.questions import ask
from openai_gateway.schemas.tgi import CompatRequest, GenerateRequest
from openai_gateway.serving import model_named, models_of, settings_of, upstream_of, wait_for_server
from openai_gateway.sse import EventStream, event
from openai_gateway.tgi_answer import TgiAnswer
from openai_gateway.tgi_question import tgi_question
from openai_gateway.upstream import ModelCard
from python_llm.errors import InvalidRequest, NotFound, ServeError

__all__ = ["router"]

router = APIRouter(tags=["Text Generation Inference"])
_VALIDATION = 422
# Status -> TGI's kind of error.
_KINDS = {400: "validation", 404: "validation", 413: "validation", 429: "overloaded", 503: "overloaded"}


@router.post("/generate", openapi_extra=takes(GenerateRequest), responses=answers(_VALIDATION))
async def generate(request: Request) -> Response:
    """Answer a text at once."""
    return await _answered(request, GenerateRequest, stream=False)


@router.post("/generate_stream", openapi_extra=takes(GenerateRequest), responses=answers(_VALIDATION))
async def generate_stream(request: Request) -> Response:
    """Answer a text token by token."""
    return await _answered(request, GenerateRequest, stream=True)


@router.post("/", openapi_extra=takes(CompatRequest), responses=answers(_VALIDATION))
async def compat_generate(request: Request) -> Response:
    """As one of the two, as ``stream`` says; an answer at once is a list of one."""
    return await _answered(request, CompatRequest, stream=False)


@router.get("/info", responses=answers(_VALIDATION))
async def info(request: Request) -> Response:
    """The model, and its bounds."""
    try:
        card = await _model(request, None)
    except ServeError as error:
        return _refusal(error)
    length = card.context_length
    said = {
        "model_id": card.name,
        "model_sha": None,
        "model_pipeline_tag": "text-generation",
        "max_total_tokens": length,
        "max_input_tokens": None if length is None else length - 1,
        "router": "triton-llm",
        "version": version("triton-llm"),
    }
    return JsonAnswer(said)


async def _answered(request: Request, kind: type[Body], *, stream: bool) -> Response:
    try:
        body = await read_body(request, kind)
        assert isinstance(body, GenerateRequest)
        await wait_for_server(request)
        card = await _model(request, body.model)
        question = tgi_question(body, caller_of(request))
        chunks = ask(upstream_of(request), card.name, [question], answer_id(request))
        parameters = body.asked
        answer = TgiAnswer(tuple(parameters.stop or ()), with_tops=bool(parameters.top_n_tokens))
        if stream or (isinstance(body, CompatRequest) and body.stream):
            return _Stream(_events(chunks, answer), settings_of(request).keep_alive_seconds)
        await unless_client_leaves(request, _read(chunks, answer))
    except ServeError as error:
        return _refusal(error)
    whole = answer.whole(with_details=bool(parameters.details or parameters.decoder_input_details))
    return JsonAnswer([whole] if isinstance(body, CompatRequest) else whole)


async def _model(request: Request, name: str | None) -> ModelCard:
    if name is not None:
        return await model_named(request, name)
    cards = await models_of(request)
    if not cards:
        raise NotFound("unknown_model", "model: none is served now; load one.")
    if len(cards) > 1:
        known = ", ".join(card.name for card in cards)
        raise InvalidRequest("missing_required_parameter", f"model: several are served: {known}; name one as 'model'.")
    return cards[0]


async def _read(chunks: Chunks, answer: TgiAnswer) -> None:
    async with aclosing(chunks):
        async for _, chunk in chunks:
            answer.take(chunk)


async def _events(chunks: Chunks, answer: TgiAnswer) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        async for _, chunk in chunks:
            for told in answer.take(chunk):
                yield event(told)


class _Stream(EventStream):
    """A refusal before the first event is TGI's too."""

    def __init__(self, events: AsyncGenerator[bytes, None], keep_alive: float) -> None:
        super().__init__(events, failed=lambda error: event(_error(error)), keep_alive=keep_alive)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ServeError as error:
            await _refusal(error)(scope, receive, send)


def _refusal(error: ServeError) -> Response:
    seconds = retry_after(error)
    status = status_of(error)
    headers = {} if seconds is None else {"Retry-After": seconds}
    return JsonAnswer(_error(error), _VALIDATION if status == 400 else status, headers)


def _error(error: ServeError) -> dict[str, Any]:
    return {"error": error.text, "error_type": _KINDS.get(status_of(error), "generation")}
