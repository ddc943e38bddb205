"""What both of OpenAI's requests may say beside their prompt.

Bounds are the server's affair, which names them; here stand names and types. null means absent everywhere.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["OURS", "WITHOUT_EFFECT", "SamplingFields", "StreamOptions", "Strict"]


class Strict(BaseModel):
    """Unknown names are refused, and nothing is read as another type than it has."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class StreamOptions(Strict):
    include_usage: bool | None = Field(None, description="true: the last chunk tells the usage; the others say null.")
    include_obfuscation: bool | None = Field(None, description="Accepted; nothing is padded here.")


class SamplingFields(Strict):
    model: str = Field(description="A served model's name; /v1/models lists them.")
    # OpenAI's own
    frequency_penalty: float | None = Field(None, description="-2 to 2.")
    logit_bias: dict[str, float] | None = Field(None, description="Token id -> number from -100 to 100.")
    max_tokens: int | None = Field(None, description="Most tokens to generate.")
    n: int | None = Field(None, ge=1, le=128, description="Answers to make.")
    presence_penalty: float | None = Field(None, description="-2 to 2.")
    seed: int | None = Field(None, description="Seed of the sampling noise; absent: a fresh one.")
    stop: str | list[str] | None = Field(None, description="Texts that end the answer; they are cut from it.")
    stream: bool | None = Field(None, description="true: the answer comes as server-sent events.")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, description="0: greedy; absent: 1, as OpenAI has it.")
    top_p: float | None = Field(None, description="Sample among the likeliest tokens that hold this mass.")
    response_format: dict[str, Any] | None = Field(
        None, description="Of type text, json_object or json_schema: what the answer must be."
    )
    user: str | None = Field(None, description="Accepted; who asks is told by the key.")
    metadata: dict[str, Any] | None = Field(None, description="Accepted and not kept.")
    store: bool | None = Field(None, description="Accepted; nothing is stored.")
    service_tier: str | None = Field(None, description="Accepted; there is one.")
    safety_identifier: str | None = Field(None, description="Accepted and not kept.")
    prompt_cache_key: str | None = Field(None, description="Requests of the same key are sent to the same server.")
    # The server's own, by the names of its inputs (docs/tensors.md)
    top_k: int | None = Field(None, description="Sample among the k likeliest tokens.")
    min_p: float | None = Field(None, description="Drop tokens less likely than this share of the likeliest.")
    min_tokens: int | None = Field(None, description="Nothing ends the answer before this many tokens.")
    repetition_penalty: float | None = Field(None, description="Above 0; 1 is off.")
    no_repeat_ngram_size: int | None = Field(None, description="No run of this many tokens appears twice.")
    bad_words: list[str] | None = Field(None, description="Texts that are not generated.")
    stop_token_ids: list[int] | None = Field(None, description="Tokens that end the answer.")
    ignore_eos: bool | None = Field(None, description="true: end tokens do not end the answer.")
    include_stop_str_in_output: bool | None = Field(None, description="true: the stop text stays in the answer.")
    guided_decoding_guide_type: str | None = Field(None, description="json, json_schema, regex or ebnf_grammar.")
    guided_decoding_guide: str | None = Field(None, description="The schema, expression or grammar.")
    cache_salt: str | None = Field(None, description="Only requests of the same salt share cached prompts.")


# Fields that change no answer, or that the gateway itself reads.
WITHOUT_EFFECT = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
OURS = WITHOUT_EFFECT | {"model", "stream", "stream_options"}
