"""The bodies of Text Generation Inference's routes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from openai_gateway.schemas.fields import Strict

__all__ = ["CompatRequest", "GenerateRequest", "Parameters"]


class Parameters(Strict):
    """TGI's names. Without do_sample, and without a parameter of sampling, the answer is greedy."""

    adapter_id: str | None = Field(None, description="Refused: serve a checkpoint with the adapter merged in.")
    best_of: int | None = Field(None, description="Refused above 1: nothing is chosen among several.")
    decoder_input_details: bool | None = Field(None, description="true: details tell the prompt's tokens, prefill.")
    details: bool | None = Field(None, description="true: tokens, counts and how it ended are told.")
    do_sample: bool | None = None
    frequency_penalty: float | None = None
    grammar: dict[str, Any] | None = Field(None, description="type json, json_schema or regex, and its value.")
    max_new_tokens: int | None = Field(None, description="Absent: 100, as TGI has it.")
    repetition_penalty: float | None = None
    return_full_text: bool | None = Field(None, description="true: the text begins with the prompt's.")
    seed: int | None = None
    stop: list[str] | None = Field(None, description="Texts that end the answer, and stay in it.")
    temperature: float | None = None
    top_k: int | None = None
    top_n_tokens: int | None = Field(None, description="Alternatives to tell for each token.")
    top_p: float | None = None
    truncate: int | None = Field(None, description="Refused: prompts are not cut.")
    typical_p: float | None = Field(None, description="Refused below 1: there is no such sampling.")
    watermark: bool | None = Field(None, description="Refused: nothing is marked.")


class GenerateRequest(Strict):
    inputs: str
    parameters: Parameters | None = None
    model: str | None = Field(None, description="A served model's name; absent: the only one.")

    @property
    def asked(self) -> Parameters:
        return self.parameters or Parameters.model_validate({})


class CompatRequest(GenerateRequest):
    stream: bool | None = None
