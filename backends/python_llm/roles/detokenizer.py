"""The detokenizer role: the generator's chunks to text; requests arrive in Triton's dynamic batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from python_llm.contract import DETOKENIZER
from python_llm.detokenizer import chunk_texts
from python_llm.request import read_values
from python_llm.roles.answers import answer_each
from python_llm.settings import ModelEntry
from python_llm.tokenizer import Tokenizer

__all__ = ["DetokenizerRole"]


class DetokenizerRole:
    """The last step of the ensemble."""

    def __init__(self, entry: ModelEntry, model_json: Path) -> None:
        self._token_bytes = Tokenizer.load(entry.artifact_path(model_json)).token_bytes

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        return answer_each(requests, self._answer, DETOKENIZER)

    def finalize(self) -> None:
        pass

    def _answer(self, request: Any) -> dict[str, Any]:
        values = read_values(request.inputs(), DETOKENIZER)
        return {"text_output": chunk_texts(self._token_bytes, values["chunk_ids"], values["text_span"])}
