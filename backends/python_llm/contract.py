"""The one tensor table: what a served model takes and gives.

``config.pbtxt``, request parsing, response building, clients and docs are written from these rows or tested
against them. A new tensor is one row, of ``request_tensors``, ``response_tensors``, ``foreign_tensors`` or
``scorer_tensors``; here they become the tables of the roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from python_llm.foreign_tensors import FOREIGN, FOREIGN_OUTPUTS
from python_llm.request_tensors import INPUT_IDS, MESSAGES, ONLY_OF_THE_GENERATOR, REQUEST, TEXT_INPUT
from python_llm.response_tensors import FOR_THE_DETOKENIZER, NOT_OF_THE_ENSEMBLE, RESPONSE
from python_llm.scorer_tensors import CACHED_OUTPUTS, SCORER_INPUTS, SCORER_OUTPUTS
from python_llm.tensors import DTYPES, Dtype, RoleContract, Tensor

__all__ = [
    "CACHED_OUTPUTS",
    "CONTROL_OPERATIONS",
    "DETOKENIZER",
    "DTYPES",
    "ENSEMBLE",
    "FOREIGN_OUTPUTS",
    "GENERATOR",
    "ROLES",
    "SCORER",
    "STANDARD_PARAMETERS",
    "TOKENIZER",
    "UNARY",
    "Dtype",
    "RoleContract",
    "Tensor",
    "generator_model",
    "role_model",
]

_OF_A_STREAM = {"stream", "streaming", "stop", "control", "every_output"}

GENERATOR = RoleContract(
    max_batch_size=1,  # shapes [1, n], as clients of NVIDIA's ensemble send them
    decoupled=True,
    inputs=(*REQUEST, *FOREIGN),
    outputs=RESPONSE,
)

TOKENIZER = RoleContract(
    max_batch_size=32,
    decoupled=False,
    inputs=(TEXT_INPUT, MESSAGES),
    outputs=(
        INPUT_IDS,
        Tensor("every_output", "BOOL", (1,), "Always true: tells the generator that it stands in an ensemble."),
    ),
)

DETOKENIZER = RoleContract(
    max_batch_size=32,
    decoupled=False,
    inputs=tuple(replace(row, optional=False) for row in RESPONSE if row.name in FOR_THE_DETOKENIZER),
    outputs=tuple(row for row in RESPONSE if row.name == "text_output"),
)

# The served model NAME: tokenizer -> generator -> detokenizer. Rows by name, from the roles above. It takes all that
# the generator takes but what goes to the generator itself, and gives all but what the detokenizer reads; names that
# vLLM's backend and the llmapi model alone have are for clients that know no ensemble.
ENSEMBLE = RoleContract(
    max_batch_size=1,
    decoupled=True,
    inputs=(
        *TOKENIZER.inputs,
        *(row for row in GENERATOR.inputs if row not in TOKENIZER.inputs and row.name not in ONLY_OF_THE_GENERATOR),
    ),
    outputs=tuple(row for row in RESPONSE if row.name not in NOT_OF_THE_ENSEMBLE),
)

# NAME-unary: the generator for plain infer, one response with all of the text, shapes without a batch dimension.
# An output of one value is one for each sequence of the request; lists of several sequences follow each other.
UNARY = RoleContract(
    max_batch_size=0,
    decoupled=False,
    inputs=tuple(row for row in GENERATOR.inputs if row.name not in _OF_A_STREAM),
    outputs=tuple(
        replace(row, dims=(-1,)) if row.is_scalar else row for row in RESPONSE if row.name not in FOR_THE_DETOKENIZER
    ),
)

# A scorer is a served model of its own, under any name: rows of a batch may have unequal lengths.
SCORER = RoleContract(max_batch_size=64, decoupled=False, inputs=SCORER_INPUTS, outputs=SCORER_OUTPUTS)

ROLES: Mapping[str, RoleContract] = {
    "tokenizer": TOKENIZER,
    "generator": GENERATOR,
    "detokenizer": DETOKENIZER,
    "unary": UNARY,
    "scorer": SCORER,
}

# Request parameters that standard clients attach by themselves and that change nothing here, and who does.
STANDARD_PARAMETERS: Mapping[str, str] = {
    "triton_enable_empty_final_response": "Triton's gRPC stream clients: an empty response marks the end.",
    "triton_grpc_error": "Triton's gRPC stream clients: errors as gRPC status codes.",
    "id": "HTTP generate: the request's id.",
    "sequence_id": "tritonclient: of stateful models.",
    "sequence_start": "tritonclient: of stateful models.",
    "sequence_end": "tritonclient: of stateful models.",
    "priority": "tritonclient: of Triton's own queue; the input of that name is the engine's.",
    "timeout": "tritonclient: in microseconds; it holds where the input of that name is absent.",
    "binary_data_output": "tritonclient over HTTP: how outputs are written.",
}

# Operations of a control request, each answered with one JSON object in text_output.
CONTROL_OPERATIONS: Mapping[str, str] = {
    "status": '{"healthy", "draining", "refuses", "running", "waiting", "steps", "stats"}, at once. "refuses" says why '
    'no new request is taken just now, as while memory is short; empty: they are. "stats" are EngineStats: block_size, '
    "blocks used, cached and in all, prefix hits, preemptions, drafts, and the KV store's.",
    "prefixes": 'the prompts whose keys and values are in the cache: {"hash", "block_size", "count", "hashes"}, the '
    'hashes of full blocks in hexadecimal, those computed last first, at most "limit" (default 1024) of "count". '
    '"hash" names the way they are made, and is empty where the engine tells none.',
    "trace": 'the life of the latest requests whose id is "request_id", or begins so: {"traces", "kept"}. Times in seconds '
    "since a request's arrival: admission, prefill chunks, preemptions, tokens, responses, end. No text, no tokens.",
    "probe": 'generates one real token at top priority, past the queue bound; {"ok": true, "seconds"}.',
    "drain": "refuse new requests from now on; answers at once as status does.",
    "retire": 'as drain, then free the engine and its memory: what runs after "grace_seconds" (default 0) is '
    'cancelled. Answers as status does, at the end, or at once with "wait": false. With "after_unload": true, which '
    'wants "wait": false, it begins only once Triton has this version no more: until then nothing is refused.',
}


def role_model(name: str, role: str) -> str:
    """The Triton model that plays ``role`` for the served model ``name``."""
    return f"{name}-{role}"


def generator_model(name: str) -> str:
    """The Triton model that generates for the served model ``name``."""
    return role_model(name, "generator")
