"""The body of a chat completion."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from openai_gateway.schemas.fields import SamplingFields, Strict

__all__ = ["ChatRequest", "Function", "FunctionChoice", "Tool"]


class Function(Strict):
    name: str = Field(min_length=1, max_length=256)
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="The JSON schema of the arguments.")
    strict: bool | None = Field(None, description="Accepted; a call that tool_choice forces follows its schema.")


class Tool(Strict):
    type: Literal["function"]
    function: Function


class FunctionName(Strict):
    name: str


class FunctionChoice(Strict):
    type: Literal["function"]
    function: FunctionName


class ChatRequest(SamplingFields):
    messages: list[dict[str, Any]] = Field(
        min_length=1,
        description="Objects with role and content, which is text or a list of parts of type text; the model's own "
        "template is applied.",
    )
    max_completion_tokens: int | None = Field(None, description="Most tokens to generate; as max_tokens.")
    logprobs: bool | None = Field(None, description="true: the log-probs of the answer's tokens are told.")
    top_logprobs: int | None = Field(None, description="Alternatives to tell for each token, 0 to 20.")
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | FunctionChoice | None = None
    parallel_tool_calls: bool | None = Field(None, description="false: at most one call is told.")
    functions: list[Any] | None = Field(None, description="Refused: send tools.")
    function_call: str | dict[str, Any] | None = Field(None, description="Refused: send tool_choice.")
    modalities: list[str] | None = Field(None, description="Text alone.")
