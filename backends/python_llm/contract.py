"""The one tensor table: what a served model takes and gives.

``config.pbtxt``, request parsing, response building, clients and docs are written from these rows or tested
against them. A new tensor is one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

__all__ = [
    "CONTROL_OPERATIONS",
    "DETOKENIZER",
    "DTYPES",
    "ENSEMBLE",
    "GENERATOR",
    "ROLES",
    "STANDARD_PARAMETERS",
    "TOKENIZER",
    "UNARY",
    "RoleContract",
    "Tensor",
    "generator_model",
    "role_model",
]

Dtype = Literal["BYTES", "BOOL", "INT32", "INT64", "UINT64", "FP32"]

# Triton's wire names -> the names config.pbtxt uses.
DTYPES: Mapping[Dtype, str] = {
    "BYTES": "TYPE_STRING",
    "BOOL": "TYPE_BOOL",
    "INT32": "TYPE_INT32",
    "INT64": "TYPE_INT64",
    "UINT64": "TYPE_UINT64",
    "FP32": "TYPE_FP32",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row: ``dims`` without the batch dimension, -1 for any length."""

    name: str
    dtype: Dtype
    dims: tuple[int, ...]
    meaning: str
    optional: bool = True


@dataclass(frozen=True, slots=True)
class RoleContract:
    """The tensors of one role. ``max_batch_size`` 0 means no batch dimension."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch_size: int
    decoupled: bool

    def input(self, name: str) -> Tensor | None:
        return next((row for row in self.inputs if row.name == name), None)


_PROMPT_TEXT = Tensor(
    "text_input", "BYTES", (1,), "The prompt as text; exactly one of text_input, input_ids, messages."
)
_PROMPT_MESSAGES = Tensor(
    "messages",
    "BYTES",
    (1,),
    "The prompt as a JSON list of chat messages, or an object with 'messages' and 'tools'; the checkpoint's own chat template is applied.",
)
_FOR_THE_DETOKENIZER = {"chunk_ids", "text_span"}
_NOT_OF_THE_ENSEMBLE = {"text_input", "messages", "input_ids", "stop", "control", "every_output"}
_NOT_OF_THE_UNARY = {"stream", "stop", "control", "every_output"}

GENERATOR = RoleContract(
    max_batch_size=1,  # shapes [1, n], as clients of NVIDIA's ensemble send them
    decoupled=True,
    inputs=(
        _PROMPT_TEXT,
        Tensor("input_ids", "INT32", (-1,), "The prompt as token ids."),
        _PROMPT_MESSAGES,
        Tensor(
            "resume_ids",
            "INT32",
            (-1,),
            "Tokens this request already produced elsewhere: they count for max_tokens, usage, stop words and random position, and are not sent again.",
        ),
        Tensor(
            "max_tokens",
            "INT32",
            (1,),
            "Most tokens to generate; absent: default_max_tokens, cut to the context.",
        ),
        Tensor("min_tokens", "INT32", (1,), "End tokens and stop words are ignored before this many tokens."),
        Tensor("stream", "BOOL", (1,), "true: a response for each step's text; false (default): one response."),
        Tensor(
            "temperature",
            "FP32",
            (1,),
            "Divides the logits; 0 is greedy. Absent: greedy unless top_k, top_p or min_p is given, then 1.",
        ),
        Tensor("top_k", "INT32", (1,), "Sample among the k likeliest tokens; 0 is off, 1 is greedy."),
        Tensor(
            "top_p",
            "FP32",
            (1,),
            "Sample among the likeliest tokens that hold this mass; 1 is off, 0 is greedy.",
        ),
        Tensor("min_p", "FP32", (1,), "Drop tokens less likely than this share of the likeliest; 0 is off."),
        Tensor("seed", "UINT64", (1,), "Seed of the sampling noise; absent: a fresh one is drawn."),
        Tensor(
            "stop_words",
            "BYTES",
            (-1,),
            "Texts that end generation where they appear; they are cut from the text.",
        ),
        Tensor("ignore_eos", "BOOL", (1,), "true: end tokens do not end generation."),
        Tensor("priority", "INT32", (1,), "Lower runs earlier; default 0."),
        Tensor(
            "timeout",
            "UINT64",
            (1,),
            "Microseconds from arrival after which the request ends with finish_reason timeout; 0: none.",
        ),
        Tensor(
            "stop",
            "BOOL",
            (1,),
            "true: cancel the running request that has this request's id; nothing else is read.",
        ),
        Tensor("control", "BYTES", (1,), "A control request of the launcher: JSON with 'operation' and 'secret'."),
        Tensor(
            "every_output",
            "BOOL",
            (1,),
            "true: every response has every output, as an ensemble needs; its text is then left to the detokenizer.",
        ),
    ),
    outputs=(
        Tensor(
            "text_output",
            "BYTES",
            (1,),
            "New text since the last response; the concatenation is the full text.",
        ),
        Tensor(
            "output_ids",
            "INT32",
            (-1,),
            "Ids of the tokens whose text is all in text_output by now, or was cut by a stop.",
        ),
        Tensor(
            "sequence_index",
            "INT32",
            (1,),
            "In the last response: which sequence of the request this is; 0 for a single one.",
        ),
        Tensor(
            "finish_reason",
            "BYTES",
            (1,),
            "In the last response alone: stop, length, cancelled or timeout.",
        ),
        Tensor("num_input_tokens", "INT32", (1,), "In the last response: prompt tokens."),
        Tensor(
            "num_output_tokens",
            "INT32",
            (1,),
            "In the last response: tokens generated, resumed ones included, an end token not.",
        ),
        Tensor("seed_used", "UINT64", (1,), "In the last response: the seed of the sampling noise."),
        Tensor(
            "chunk_ids",
            "INT32",
            (-1,),
            "With every_output: output_ids, after the ids that an unfinished character began in.",
        ),
        Tensor(
            "text_span", "INT32", (2,), "With every_output: UTF-8 bytes of chunk_ids' text to skip, and then to emit."
        ),
    ),
)

TOKENIZER = RoleContract(
    max_batch_size=32,
    decoupled=False,
    inputs=(_PROMPT_TEXT, _PROMPT_MESSAGES),
    outputs=(
        Tensor("input_ids", "INT32", (-1,), "The prompt as token ids."),
        Tensor("every_output", "BOOL", (1,), "Always true: tells the generator that it stands in an ensemble."),
    ),
)

DETOKENIZER = RoleContract(
    max_batch_size=32,
    decoupled=False,
    inputs=(
        Tensor("chunk_ids", "INT32", (-1,), "Tokens that begin and end at whole characters.", optional=False),
        Tensor("text_span", "INT32", (2,), "UTF-8 bytes of their text to skip, and then to emit.", optional=False),
    ),
    outputs=(Tensor("text_output", "BYTES", (1,), "The tokens' text."),),
)

# The served model NAME: tokenizer -> generator -> detokenizer. Rows by name, from the roles above.
ENSEMBLE = RoleContract(
    max_batch_size=1,
    decoupled=True,
    inputs=(
        *TOKENIZER.inputs,
        *(row for row in GENERATOR.inputs if row.name not in _NOT_OF_THE_ENSEMBLE),
    ),
    outputs=tuple(row for row in GENERATOR.outputs if row.name not in _FOR_THE_DETOKENIZER),
)

# NAME-unary: the generator for plain infer, one response with all of the text, shapes without a batch dimension.
# An output of one value is one for each sequence of the request; lists of several sequences follow each other.
UNARY = RoleContract(
    max_batch_size=0,
    decoupled=False,
    inputs=tuple(row for row in GENERATOR.inputs if row.name not in _NOT_OF_THE_UNARY),
    outputs=tuple(
        replace(row, dims=(-1,)) if row.dims == (1,) else row
        for row in GENERATOR.outputs
        if row.name not in _FOR_THE_DETOKENIZER
    ),
)

ROLES: Mapping[str, RoleContract] = {
    "tokenizer": TOKENIZER,
    "generator": GENERATOR,
    "detokenizer": DETOKENIZER,
    "unary": UNARY,
}

# Request parameters that standard clients attach by themselves and that change nothing here.
STANDARD_PARAMETERS = frozenset(
    {
        "triton_enable_empty_final_response",
        "triton_grpc_error",
        "id",
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "binary_data_output",
    }
)

# Operations of a control request, each answered with one JSON object in text_output.
#   status  {"healthy", "draining", "running", "waiting", "steps", "stats": {EngineStats}}: answered at once, never queued
#   probe   generates one real token at top priority, past the queue bound; {"ok": true, "seconds"}
#   drain   refuse new requests from now on; answers at once as status does
#   retire  as drain, then free the engine: what runs after "grace_seconds" (default 0) is cancelled; answers at the end
CONTROL_OPERATIONS = ("status", "probe", "drain", "retire")


def role_model(name: str, role: str) -> str:
    """The Triton model that plays ``role`` for the served model ``name``."""
    return f"{name}-{role}"


def generator_model(name: str) -> str:
    """The Triton model that generates for the served model ``name``."""
    return role_model(name, "generator")
