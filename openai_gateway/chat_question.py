"""A chat completion's body as a question, and the parser that finds calls in its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openai_gateway.caller import Caller
from openai_gateway.chat_messages import template_messages
from openai_gateway.questions import Question, given, params_of, prefix_of
from openai_gateway.schemas.chat import ChatRequest, FunctionChoice
from openai_gateway.tool_calls import FORMATS
from openai_gateway.tool_calls.events import Parser
from openai_gateway.tool_calls.forced import AnyFunction, OneFunction, schema_of_any
from openai_gateway.upstream import ModelCard
from python_llm.errors import InvalidRequest, Unsupported

__all__ = ["ChatQuestion", "chat_question"]

_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
_ANYTHING: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """``parser`` makes one for each answer; None: all of an answer is text. ``stops_at_call``: a call of the function
    that was named ends with "stop", as OpenAI has it.
    """

    question: Question
    parser: Callable[[], Parser] | None = None
    stops_at_call: bool = False


def chat_question(body: ChatRequest, card: ModelCard, form: str | None, caller: Caller) -> ChatQuestion:
    """``form``: how the model writes calls, a key of FORMATS, or None.

    Raises:
        InvalidRequest: fields that contradict each other.
        Unsupported: what the model cannot do.
    """
    fields = given(body, "messages", *_OF_TOOLS)
    messages = template_messages(body.messages)
    if body.tools is None and body.tool_choice not in (None, "none", "auto"):
        raise InvalidRequest("tools_missing", "tool_choice: there are no tools; send tools, or leave it out.")
    if not body.tools or body.tool_choice == "none":
        return ChatQuestion(Question(messages, params_of(fields, caller, chat=True), prefix_of(messages, body)))
    if form is None or form not in FORMATS:
        known = ", ".join(FORMATS)
        raise Unsupported(
            "no_tools",
            f"tools: model '{card.name}' writes no calls of tools in a form that is known ({known}); leave tools "
            "out, or ask a model that was trained for them: /v1/models tells it as tool_calls.",
        )
    parser, guide = _parser(body, form)
    if guide and ({"response_format", "guided_decoding_guide_type"} & fields.keys()):
        raise InvalidRequest("given_twice", "tool_choice: a forced call and response_format; leave one out.")
    prompt = {"messages": messages, "tools": [tool.model_dump(exclude_none=True) for tool in body.tools]}
    params = params_of({**fields, **guide}, caller, chat=True)
    named = isinstance(body.tool_choice, FunctionChoice)
    return ChatQuestion(Question(prompt, params, prefix_of(prompt, body)), parser, named)


def _parser(body: ChatRequest, form: str) -> tuple[Callable[[], Parser], Mapping[str, Any]]:
    """And the guide that a forced call follows."""
    functions = {tool.function.name: tool.function.parameters or _ANYTHING for tool in body.tools or ()}
    if len(functions) != len(body.tools or ()):
        raise InvalidRequest("given_twice", "tools: two functions have the same name; give each one of its own.")
    if isinstance(body.tool_choice, FunctionChoice):
        name = body.tool_choice.function.name
        if name not in functions:
            known = ", ".join(functions)
            raise InvalidRequest(
                "unknown_function", f"tool_choice: function '{name[:80]}' is none of the tools: {known}."
            )
        return lambda: OneFunction(name), _guide(functions[name])
    if body.tool_choice == "required":
        return lambda: AnyFunction(functions), _guide(schema_of_any(functions))
    return lambda: FORMATS[form](functions), {}


def _guide(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": schema}
