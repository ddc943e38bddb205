"""What a response says: one row an output.

Of one sequence a response holds one value; a request that does not stream is answered for all its sequences at once,
with a value for each.
"""

# ruff: noqa: E501  (a table: one row a line)

from __future__ import annotations

from python_llm.tensors import Dtype, Tensor

__all__ = ["FOR_THE_DETOKENIZER", "NOT_OF_THE_ENSEMBLE", "RESPONSE"]


def _each(name: str, dtype: Dtype, meaning: str) -> Tensor:
    """A value for each sequence of the response."""
    return Tensor(name, dtype, (-1,), meaning)


def _once(name: str, dtype: Dtype, meaning: str) -> Tensor:
    return Tensor(name, dtype, (1,), meaning)


_ASKED = "With return_perf_metrics, in the last response: "
_CLOCK = "nanoseconds of the server's monotonic clock."

_TEXT = (
    _each("text_output", "BYTES", "New text since the last response; the concatenation is the full text."),
    _each(
        "output_ids",
        "INT32",
        "Ids of the tokens whose text is all in text_output by now, or was cut by a stop; of several sequences one after the other.",
    ),
    _each(
        "sequence_index",
        "INT32",
        "Which sequence of the request this is. With several sequences in every response, else in the last.",
    ),
    _each("finish_reason", "BYTES", "In a sequence's last response: stop, length, cancelled or timeout."),
    _each(
        "stop_reason",
        "BYTES",
        "With return_stop_reason, beside finish_reason: the stop word, or the id of the token that ended the sequence, else empty.",
    ),
)

_LOG_PROBS = (
    _each("cum_log_probs", "FP32", "With return_log_probs: the sum of the sequence's log-probs so far."),
    Tensor(
        "output_log_probs",
        "FP32",
        (-1, -1),
        "With return_log_probs: natural log of the probability of each token in output_ids, a row for each sequence, filled up with 0. The distribution is the model's own: before temperature, penalties, bias and guide.",
    ),
    _each(
        "output_top_log_probs",
        "BYTES",
        "With top_log_probs: JSON, a list for each token in output_ids: the likeliest tokens as {id, text, log_prob}, likeliest first; bytes too where text is no whole UTF-8.",
    ),
    Tensor(
        "prompt_log_probs",
        "FP32",
        (-1,),
        "With return_prompt_log_probs, in the first response: of each prompt token but the first.",
    ),
    Tensor(
        "prompt_top_log_probs",
        "BYTES",
        (-1,),
        "With return_prompt_log_probs and top_log_probs, in the first response: JSON as in output_top_log_probs.",
    ),
    Tensor(
        "prompt_tokens",
        "BYTES",
        (-1,),
        "With return_prompt_log_probs, in the first response: JSON, the prompt's tokens as {id, text}; bytes too where text is no whole UTF-8. Special tokens have no text.",
    ),
    _each(
        "logprobs",
        "BYTES",
        "With return_logprobs: JSON, for each token in output_ids an object as vLLM writes it: token id -> {logprob, rank, decoded_token}, the generated token and its alternatives; rank null: beyond them; bytes too where decoded_token is no whole UTF-8.",
    ),
    _each("cumulative_logprob", "FP32", "With return_cumulative_logprob: as cum_log_probs."),
)

_COUNTS = (
    _once("num_input_tokens", "INT32", "In the last response: prompt tokens."),
    _each(
        "num_output_tokens",
        "INT32",
        "In a sequence's last response: tokens generated, resumed ones included, an end token not.",
    ),
    _once("seed_used", "UINT64", "In the last response: the seed of the sampling noise."),
)

_TIMES = (
    _each("arrival_time_ns", "INT64", f"{_ASKED}when the request came, {_CLOCK}"),
    _each("first_scheduled_time_ns", "INT64", f"{_ASKED}when the engine first worked on it."),
    _each("first_token_time_ns", "INT64", f"{_ASKED}when its first token was there."),
    _each("last_token_time_ns", "INT64", f"{_ASKED}when its last token was there."),
)

_KV_BLOCKS = (
    _each("kv_cache_reused_blocks", "INT32", f"{_ASKED}KV blocks found in the prefix cache."),
    _each("kv_cache_alloc_new_blocks", "INT32", f"{_ASKED}KV blocks taken new."),
    _each("kv_cache_alloc_total_blocks", "INT32", f"{_ASKED}both."),
)

_LLMAPI = (
    _each("kv_cache_reused_block", "INT32", f"{_ASKED}kv_cache_reused_blocks, as the llmapi model calls it."),
    _each("kv_cache_missed_block", "INT32", f"{_ASKED}kv_cache_alloc_new_blocks, as the llmapi model calls it."),
    _each("kv_cache_hit_rate", "FP32", f"{_ASKED}reused blocks / all."),
)

_DRAFTS = (
    _each("total_draft_tokens", "INT32", f"{_ASKED}tokens that speculation proposed."),
    _each("total_accepted_draft_tokens", "INT32", f"{_ASKED}and those that the model accepted."),
    _each("acceptance_rate", "FP32", f"{_ASKED}accepted / proposed."),
    _each("batch_index", "INT32", f"{_ASKED}0: a request is never a batch of several."),
)

_CHUNK = (
    Tensor(
        "chunk_ids",
        "INT32",
        (-1,),
        "With every_output: for each sequence its output_ids, after the ids that an unfinished character began in and, where the prompt is echoed, the prompt's.",
    ),
    Tensor(
        "text_span",
        "INT32",
        (-1,),
        "With every_output, for each sequence: how many chunk_ids are its own, UTF-8 bytes of their text to skip, and then to emit.",
    ),
)

RESPONSE = (*_TEXT, *_LOG_PROBS, *_COUNTS, *_TIMES, *_KV_BLOCKS, *_LLMAPI, *_DRAFTS, *_CHUNK)

FOR_THE_DETOKENIZER = frozenset(row.name for row in _CHUNK)
# What clients of ensembles do not know: each output of an ensemble costs time in every response.
NOT_OF_THE_ENSEMBLE = (
    FOR_THE_DETOKENIZER | {row.name for row in _LLMAPI} | {*("prompt_tokens", "logprobs", "cumulative_logprob")}
)
