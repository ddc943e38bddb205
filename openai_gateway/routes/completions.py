"""POST /v1/completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from openai_gateway.answer_head import AnswerHead
from openai_gateway.answering import Chunks, answer_id, answer_stream, check_stream_options, wants_usage
from openai_gateway.body import read_body
from openai_gateway.caller import caller_of
from openai_gateway.completion_answer import CompletionAnswer
from openai_gateway.completion_question import completion_questions
from openai_gateway.disconnect import unless_client_leaves
from openai_gateway.json_text import JsonAnswer
from openai_gateway.openapi import answers, takes
from openai_gateway.questions import ask
from openai_gateway.schemas.completion import CompletionRequest
from openai_gateway.serving import model_named, upstream_of, wait_for_server
from openai_gateway.sse import event
from openai_gateway.usage import Usage

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["completions"])


@router.post("/completions", openapi_extra=takes(CompletionRequest), responses=answers())
async def completions(request: Request) -> Response:
    """Continue one text or several."""
    body = await read_body(request, CompletionRequest)
    check_stream_options(body)
    await wait_for_server(request)
    card = await model_named(request, body.model)
    questions = completion_questions(body, card, caller_of(request))
    request_id = answer_id(request)
    chunks = ask(upstream_of(request), card.name, questions, request_id)
    head = AnswerHead(f"cmpl-{request_id}", "text_completion", card.name)
    answer = CompletionAnswer(len(questions), body.n or 1, echo_told=bool(body.echo and body.logprobs is not None))
    if body.stream:
        return answer_stream(request, _events(chunks, head, answer, with_usage=wants_usage(body)))
    return JsonAnswer(await unless_client_leaves(request, _whole(chunks, head, answer)))


async def _whole(chunks: Chunks, head: AnswerHead, answer: CompletionAnswer) -> dict[str, Any]:
    usage = Usage()
    async with aclosing(chunks):
        async for question, chunk in chunks:
            usage.add(question, chunk)
            answer.take(question, chunk)
    return {**head.fields(), "choices": answer.whole(), "usage": usage.told()}


async def _events(
    chunks: Chunks, head: AnswerHead, answer: CompletionAnswer, *, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    fields: dict[str, Any] = {**head.fields(), **({"usage": None} if with_usage else {})}
    usage = Usage()
    async with aclosing(chunks):
        async for question, chunk in chunks:
            usage.add(question, chunk)
            yield event({**fields, "choices": [answer.take(question, chunk)]})
    if with_usage:
        yield event({**fields, "choices": [], "usage": usage.told()})
