"""How many tokens an answer took."""

from __future__ import annotations

from typing import Any

from triton_llm_client import Chunk

__all__ = ["Usage"]


class Usage:
    """Adds up what the chunks of all of a request's questions tell: a prompt counts once, whatever its answers."""

    def __init__(self) -> None:
        self._prompts: dict[int, int] = {}
        self._answers: dict[tuple[int, int], int] = {}

    def add(self, question: int, chunk: Chunk) -> None:
        if chunk.input_tokens is not None:
            self._prompts[question] = chunk.input_tokens
        key = (question, chunk.sequence_index)
        if chunk.output_tokens is not None:
            self._answers[key] = chunk.output_tokens
        elif chunk.output_ids:
            self._answers[key] = self._answers.get(key, 0) + len(chunk.output_ids)

    def told(self) -> dict[str, Any]:
        prompt, completion = sum(self._prompts.values()), sum(self._answers.values())
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
