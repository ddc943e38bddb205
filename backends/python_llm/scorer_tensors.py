"""What a scorer takes and gives: one row a tensor."""

# ruff: noqa: E501  (a table: one row a line)

from __future__ import annotations

from python_llm.tensors import Dtype, Tensor

__all__ = ["CACHED_OUTPUTS", "SCORER_INPUTS", "SCORER_OUTPUTS"]


def _one(name: str, dtype: Dtype, meaning: str) -> Tensor:
    return Tensor(name, dtype, (1,), meaning)


def _each(name: str, dtype: Dtype, meaning: str) -> Tensor:
    """A value for each token of the row."""
    return Tensor(name, dtype, (-1,), meaning)


SCORER_INPUTS = (
    _each("input_ids", "INT32", "Token ids, [batch, n]; exactly one of input_ids and text_input."),
    _each(
        "attention_mask",
        "INT32",
        "1 for a token, 0 for padding, in the shape of input_ids; padding stands before or after the tokens. Absent: all are tokens.",
    ),
    _one("text_input", "BYTES", "Text, [batch, 1], tokenised as the generator tokenises it."),
    _one(
        "top_k", "INT32", "How many alternatives top_ids and top_log_probs hold, 1 (default) to 100; one for each row."
    ),
)

SCORER_OUTPUTS = (
    Tensor(
        "logits",
        "FP32",
        (-1, -1),
        "[batch, n, vocabulary]: behind each token, before softmax; 0 at padding. Ask for it by name where it is wanted, and for the others where not: it is large.",
    ),
    _each(
        "token_log_probs",
        "FP32",
        "Natural log of each token's probability, given the ones before it; 0 for the first and for padding.",
    ),
    _one("sum_log_probs", "FP32", "Sum of token_log_probs."),
    _one("num_scored", "INT32", "Tokens in that sum: one less than the row has."),
    Tensor("top_ids", "INT32", (-1, -1), "[batch, n, top_k]: the likeliest tokens behind each token, likeliest first."),
    Tensor("top_log_probs", "FP32", (-1, -1), "Their log-probs, in the same places."),
    _each("scored_ids", "INT32", "The ids that were scored: input_ids, or those of text_input; 0 at padding."),
)

# Triton's response cache knows a request by its inputs alone, so that a hit may have other outputs than were asked for:
# a scorer with a cache has no logits, and takes only requests for all that is left.
CACHED_OUTPUTS = frozenset(row.name for row in SCORER_OUTPUTS) - {"logits"}
