"""A completion's body as questions: one for each prompt."""

from __future__ import annotations

from typing import Any

from openai_gateway.caller import Caller
from openai_gateway.questions import Question, check_length, given, params_of, prefix_of
from openai_gateway.schemas.completion import CompletionRequest
from openai_gateway.upstream import ModelCard
from python_llm.errors import InvalidRequest
from triton_llm_client import Prompt

__all__ = ["completion_questions"]

_MOST_PROMPTS = 2048
_MAX_TOKENS = 16  # OpenAI's default of completions


def completion_questions(body: CompletionRequest, card: ModelCard, caller: Caller) -> list[Question]:
    """Raises InvalidRequest: no prompt, too many, one that is too long, or fields that contradict each other."""
    prompts = _prompts(body)
    for prompt in prompts:
        check_length(prompt, card)
    params = params_of(_fields(body), caller, chat=False)
    return [Question(prompt, params, prefix_of(prompt, body)) for prompt in prompts]


def _prompts(body: CompletionRequest) -> list[Prompt]:
    prompt = body.prompt
    if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
        return [prompt]  # type: ignore[list-item]
    if not 0 < len(prompt) <= _MOST_PROMPTS:
        raise InvalidRequest("empty_prompt", f"prompt: {len(prompt)} prompts; send 1 to {_MOST_PROMPTS}.")
    return list(prompt)  # type: ignore[arg-type]


def _fields(body: CompletionRequest) -> dict[str, Any]:
    fields = {"max_tokens": _MAX_TOKENS, **given(body, "prompt", "echo")}
    if body.echo:
        fields["exclude_input_in_output"] = False
    if body.echo and (body.logprobs is not None or fields["max_tokens"] == 0):
        fields["return_prompt_log_probs"] = True  # also what lets the server generate nothing
    return fields
