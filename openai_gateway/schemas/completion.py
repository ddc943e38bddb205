"""The body of a completion."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field

from openai_gateway.schemas.fields import SamplingFields

__all__ = ["CompletionRequest"]

T = TypeVar("T")
# Of a long list's items the first that is wrong is told: telling each takes seconds.
_All = Annotated[list[T], Field(fail_fast=True)]


class CompletionRequest(SamplingFields):
    prompt: str | _All[str] | _All[int] | _All[_All[int]] = Field(
        description="A text, token ids, or a list of one of them: each is answered, in order."
    )
    echo: bool | None = Field(None, description="true: the text begins with the prompt's, its log-probs too.")
    logprobs: int | None = Field(None, description="Alternatives to tell for each token, 0 to 20.")
    best_of: int | None = Field(None, description="Refused above n: nothing is chosen among several.")
    suffix: str | None = Field(None, description="Refused: nothing is filled in.")
