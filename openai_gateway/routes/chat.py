"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from openai_gateway.answer_head import AnswerHead
from openai_gateway.answering import Chunks, answer_id, answer_stream, check_stream_options, wants_usage
from openai_gateway.body import read_body
from openai_gateway.caller import caller_of
from openai_gateway.chat_choice import ChatChoice
from openai_gateway.chat_question import ChatQuestion, chat_question
from openai_gateway.disconnect import unless_client_leaves
from openai_gateway.json_text import JsonAnswer
from openai_gateway.openapi import answers, takes
from openai_gateway.questions import ask
from openai_gateway.schemas.chat import ChatRequest
from openai_gateway.serving import model_named, settings_of, upstream_of, wait_for_server
from openai_gateway.sse import event
from openai_gateway.usage import Usage

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["chat"])


@router.post("/chat/completions", openapi_extra=takes(ChatRequest), responses=answers())
async def chat_completions(request: Request) -> Response:
    """Answer a conversation."""
    body = await read_body(request, ChatRequest)
    check_stream_options(body)
    await wait_for_server(request)
    card = await model_named(request, body.model)
    form = settings_of(request).tool_calls.get(card.name, card.tool_calls)
    asked = chat_question(body, card, form, caller_of(request))
    request_id = answer_id(request)
    chunks = ask(upstream_of(request), card.name, [asked.question], request_id)
    choices = _choices(body, asked)
    if body.stream:
        head = AnswerHead(f"chatcmpl-{request_id}", "chat.completion.chunk", card.name)
        return answer_stream(request, _events(chunks, head, choices, with_usage=wants_usage(body)))
    head = AnswerHead(f"chatcmpl-{request_id}", "chat.completion", card.name)
    return JsonAnswer(await unless_client_leaves(request, _whole(chunks, head, choices)))


def _choices(body: ChatRequest, asked: ChatQuestion) -> Mapping[int, ChatChoice]:
    return {
        index: ChatChoice(
            index,
            asked.parser() if asked.parser else None,
            one_call=body.parallel_tool_calls is False,
            stops_at_call=asked.stops_at_call,
        )
        for index in range(body.n or 1)
    }


async def _whole(chunks: Chunks, head: AnswerHead, choices: Mapping[int, ChatChoice]) -> dict[str, Any]:
    usage = Usage()
    async with aclosing(chunks):
        async for question, chunk in chunks:
            usage.add(question, chunk)
            choices[chunk.sequence_index].take(chunk)
    return {**head.fields(), "choices": [choice.whole() for choice in choices.values()], "usage": usage.told()}


async def _events(
    chunks: Chunks, head: AnswerHead, choices: Mapping[int, ChatChoice], *, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    fields: dict[str, Any] = {**head.fields(), **({"usage": None} if with_usage else {})}
    usage, opened = Usage(), False
    async with aclosing(chunks):
        async for question, chunk in chunks:
            if not opened:
                opened = True
                for choice in choices.values():
                    yield event({**fields, "choices": [choice.opening()]})
            usage.add(question, chunk)
            for told in choices[chunk.sequence_index].take(chunk):
                yield event({**fields, "choices": [told]})
    if with_usage:
        yield event({**fields, "choices": [], "usage": usage.told()})
