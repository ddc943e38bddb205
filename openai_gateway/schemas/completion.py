"""The body of a completion."""

from __future__ import annotations

from pydantic import Field

from openai_gateway.schemas.fields import SamplingFields

__all__ = ["CompletionRequest"]


class CompletionRequest(SamplingFields):
    prompt: str | list[str] | list[int] | list[list[int]] = Field(
        description="A text, token ids, or a list of one of them: each is answered, in order."
    )
    echo: bool | None = Field(None, description="true: the text begins with the prompt's, its log-probs too.")
    logprobs: int | None = Field(None, description="Alternatives to tell for each token, 0 to 20.")
    best_of: int | None = Field(None, description="Refused above n: nothing is chosen among several.")
    suffix: str | None = Field(None, description="Refused: nothing is filled in.")
