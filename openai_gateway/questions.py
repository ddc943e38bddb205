"""What is asked of the servers: prompts with their parameters, read from a request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from openai_gateway.caller import Caller
from openai_gateway.schemas.fields import OURS, SamplingFields
from openai_gateway.several import side_by_side
from openai_gateway.upstream import ModelCard, Upstream
from python_llm.errors import InvalidRequest
from triton_llm_client import Chunk, GenerateParams, Prompt
from triton_llm_client.openai_params import params_of_body

__all__ = ["Question", "ask", "check_length", "given", "params_of", "prefix_of", "prefix_of_text"]

_PREFIX = 1024  # characters of a prompt that say which server has its beginning
_SEEDS = 2**64  # OpenAI's may be negative


@dataclass(frozen=True, slots=True)
class Question:
    prompt: Prompt
    params: GenerateParams
    prefix: str = ""


def given(body: SamplingFields, *without: str) -> dict[str, Any]:
    """The body's fields that are there and are parameters; names in ``without`` are read elsewhere."""
    names = (name for name in type(body).model_fields if name not in OURS and name not in without)
    return {name: value for name in names if (value := getattr(body, name)) is not None}


def params_of(fields: Mapping[str, Any], caller: Caller, *, chat: bool) -> GenerateParams:
    """``fields`` by OpenAI's names, and who asks."""
    named = {"temperature": 1.0, **fields}
    if "seed" in named:
        named["seed"] %= _SEEDS
    if named.get("best_of") == named.get("n", 1):
        named.pop("best_of", None)
    params = params_of_body(named, chat=chat)
    return replace(params, tenant=caller.tenant or None, priority=caller.priority or None)


def check_length(prompt: Prompt, card: ModelCard) -> None:
    """Of token ids the count is known here: what cannot fit is not sent.

    Raises:
        InvalidRequest: as the generator says it.
    """
    length = card.context_length
    if length is None or not isinstance(prompt, list):
        return
    if len(prompt) >= length and isinstance(prompt[0], int):
        raise InvalidRequest(
            "prompt_too_long",
            f"prompt: {len(prompt)} tokens; prompt and output together may have {length}: shorten the prompt.",
        )


def prefix_of(prompt: Prompt, body: SamplingFields) -> str:
    """Equal where prompts begin alike: of a conversation up to its first question, so that it stays where it began."""
    if body.prompt_cache_key:
        return _digest(f"key {body.prompt_cache_key}")
    if isinstance(prompt, str):
        return prefix_of_text(prompt, body.cache_salt)
    items: Sequence[Any] = prompt["messages"] if isinstance(prompt, Mapping) else prompt
    if items and isinstance(items[0], Mapping):
        items = _opening(items)
    begin = json.dumps(list(items[: _PREFIX // 4]))[: 4 * _PREFIX]
    return _digest(f"{body.cache_salt or ''} {begin}")


def prefix_of_text(prompt: str, salt: str | None = None) -> str:
    return _digest(f"{salt or ''} {prompt[:_PREFIX]}")


def _opening(messages: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    first = next((at for at, message in enumerate(messages) if message.get("role") == "user"), 0)
    contents = (message.get("content") for message in messages[: min(first, 8) + 1])
    return [content[:_PREFIX] if isinstance(content, str) else content for content in contents]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def ask(
    upstream: Upstream, model: str, questions: Sequence[Question], request_id: str
) -> AsyncGenerator[tuple[int, Chunk], None]:
    """The chunks of all the questions' answers, with the question's number."""
    return side_by_side(
        [
            upstream.stream(
                model,
                question.prompt,
                question.params,
                request_id=f"{request_id}-{number}" if number else request_id,
                prefix=question.prefix,
            )
            for number, question in enumerate(questions)
        ]
    )
