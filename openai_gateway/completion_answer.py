"""All choices of a completion: those of the first prompt, then those of the second."""

from __future__ import annotations

from typing import Any

from openai_gateway.completion_choice import CompletionChoice
from triton_llm_client import Chunk
from triton_llm_client.openai_log_probs import PromptTold

__all__ = ["CompletionAnswer"]


class CompletionAnswer:
    """``echo_told``: the choices begin with their prompt and tell its log-probs, which a request's first chunk has."""

    def __init__(self, prompts: int, answers: int, *, echo_told: bool) -> None:
        self._answers = answers
        self._echo_told = echo_told
        self._choices = [CompletionChoice(index) for index in range(prompts * answers)]
        self._prompts: dict[int, PromptTold] = {}
        self._begun: set[int] = set()

    def take(self, question: int, chunk: Chunk) -> dict[str, Any]:
        """The part of a stream that the chunk is."""
        choice = self._choices[question * self._answers + chunk.sequence_index]
        if not self._echo_told or choice.index in self._begun:
            return choice.take(chunk)
        self._begun.add(choice.index)
        if question not in self._prompts:
            self._prompts[question] = PromptTold(
                chunk.prompt_tokens, chunk.prompt_log_probs, chunk.prompt_top_log_probs
            )
        return choice.take(chunk, self._prompts[question])

    def whole(self) -> list[dict[str, Any]]:
        return [choice.whole() for choice in self._choices]
