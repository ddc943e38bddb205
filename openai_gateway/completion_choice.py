"""One choice of a completion: from chunks to its text and log-probs."""

from __future__ import annotations

from itertools import chain
from typing import Any

from openai_gateway.finish import finish_of
from triton_llm_client import Choice, Chunk
from triton_llm_client.openai_log_probs import PromptTold, completion_log_probs

__all__ = ["CompletionChoice"]

_NO_PROMPT = PromptTold()


class CompletionChoice:
    """``take`` gives the parts of a stream; ``whole`` their sum."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._length = 0  # of the text so far
        self._parts: list[dict[str, Any]] = []
        self._finish: str | None = None

    def take(self, chunk: Chunk, prompt: PromptTold = _NO_PROMPT) -> dict[str, Any]:
        """``prompt``: what the text begins with, of an answer's first chunk."""
        log_probs = completion_log_probs(Choice.of(self.index, [chunk]), begin=self._length, prompt=prompt)
        self._length += len(chunk.text)
        self._finish = finish_of(chunk.finish_reason)
        told = {"index": self.index, "text": chunk.text, "logprobs": log_probs, "finish_reason": self._finish}
        self._parts.append(told)
        return told

    def whole(self) -> dict[str, Any]:
        told = [part["logprobs"] for part in self._parts if part["logprobs"] is not None]
        return {
            "index": self.index,
            "text": "".join(part["text"] for part in self._parts),
            "logprobs": {name: _joined([part[name] for part in told]) for name in told[0]} if told else None,
            "finish_reason": self._finish,
        }


def _joined(lists: list[list[Any] | None]) -> list[Any] | None:
    there = [one for one in lists if one is not None]
    return list(chain.from_iterable(there)) if there else None
