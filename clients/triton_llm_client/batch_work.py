"""What one line of a batch asks of the server."""

from __future__ import annotations

from dataclasses import dataclass

from triton_llm_client.params import GenerateParams
from triton_llm_client.prompts import Prompt

__all__ = ["Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """``model`` is the served name; empty: the command's."""

    model: str
    prompt: Prompt
    params: GenerateParams
