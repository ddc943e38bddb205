"""The tokenizer role: text or chat messages to token ids; requests arrive in Triton's dynamic batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from python_llm.artifact import Artifact
from python_llm.contract import TOKENIZER
from python_llm.prompt import PromptReader
from python_llm.request import read_parameters, read_values
from python_llm.roles.answers import answer_each
from python_llm.settings import ModelEntry
from python_llm.tokenizer import Tokenizer

__all__ = ["TokenizerRole"]


class TokenizerRole:
    """The first step of the ensemble."""

    def __init__(self, entry: ModelEntry, model_json: Path) -> None:
        folder = entry.artifact_path(model_json)
        facts = Artifact.open(folder).manifest.model
        longest = entry.serving.max_sequence_len or facts.context_length
        self._prompts = PromptReader(Tokenizer.load(folder), vocab_size=facts.vocab_size, max_tokens=longest)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        return answer_each(requests, self._answer, TOKENIZER)

    def finalize(self) -> None:
        pass

    def _answer(self, request: Any) -> dict[str, Any]:
        values = read_values(request.inputs(), TOKENIZER)
        read_parameters(request.parameters(), TOKENIZER)
        return {"input_ids": self._prompts.read(values), "every_output": True}
