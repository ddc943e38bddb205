"""How much a request asks of a server, in tokens, and how much of that is still to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton_llm_client import GenerateParams, Prompt

__all__ = ["estimate"]

_CHARACTERS_A_TOKEN = 4  # of English text; the gateway has no tokenizer
_OUTPUT = 256  # tokens of an answer whose request names no bound


def estimate(prompt: Prompt, params: GenerateParams) -> float:
    """Tokens to compute: the prompt's, and as many as the answer may have."""
    answer = _OUTPUT if params.max_tokens is None else max(0, params.max_tokens - len(params.resume_ids))
    return _prompt_tokens(prompt) + answer * max(1, params.num_return_sequences or params.beam_width or 1)


def _prompt_tokens(prompt: Prompt) -> float:
    if isinstance(prompt, (str, Mapping)):
        return _characters(prompt) / _CHARACTERS_A_TOKEN
    if prompt and isinstance(prompt[0], Mapping):
        return sum(map(_characters, prompt)) / _CHARACTERS_A_TOKEN
    return float(len(prompt))


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, (list, tuple)) else 1
