"""docs/tensors.md, from the contract's rows."""

from __future__ import annotations

from collections.abc import Sequence

from docs.generate.error_reasons import error_reasons
from docs.generate.tables import bullets, names, table
from python_llm.contract import (
    CONTROL_OPERATIONS,
    ENSEMBLE,
    FOREIGN_OUTPUTS,
    GENERATOR,
    ROLES,
    STANDARD_PARAMETERS,
    UNARY,
    Tensor,
)
from python_llm.conventions import CONVENTIONS, OF_TRITON
from python_llm.foreign_sampling import FOREIGN_KEYS
from python_llm.prefix_hash import PREFIX_HASH
from python_llm.sampling_parameters import KEYS

__all__ = ["tensors_page"]

_UNARY = (
    "max_batch_size 0, one response for each request, with all of its text: the generator's rows, in shapes without a "
    "batch dimension. An output of one value is one for each sequence of the request; the lists of several sequences "
    "follow each other."
)
_GENERATOR = (
    "max_batch_size 1, decoupled. An output that was not asked for is not sent: a response of a stream that carries "
    "just text has `text_output` and `output_ids`."
)
_SCORER = (
    "Served under any name (docs/scoring.md). max_batch_size 64, one response for each request; requests of unequal "
    "lengths share a batch."
)
_PARAMETERS = "Let through: what the table names, and every key of `sampling_parameters`. Others are refused by name."
_CONTROL = (
    "The input `control` holds a JSON object: `operation`, the `secret` of this start, and what the operation takes. "
    "The launcher draws the secret and keeps it in `control.json` of its run folder, readable by its owner alone. The "
    "answer is one response, whose `text_output` is a JSON object."
)
_PREFIXES = (
    "A router that knows a prompt's ids can tell which server has its beginning, by the hashes of `prefixes`: split "
    "the ids into blocks of `block_size`, leave the last one out if it is not full, and hash each block behind the one "
    f"before it. `{PREFIX_HASH}` is BLAKE2b with 16 bytes of digest and no key, over the 16 bytes of the hash before "
    "and the block's ids as little-endian int32; before the first block stands the request's `cache_salt` in UTF-8, "
    "nothing without one. `python_llm.prefix_hash.prefix_hashes` does it. The hashes tell who knows a prompt that it "
    "was asked here, so they are told under the secret alone."
)
_KEYS = (
    "A JSON object; each of these inputs may stand in it under its own name, and vLLM's names say what the table "
    "tells. The same keys may come as request parameters, as texts, numbers and flags."
)
_REASONS = (
    "An error's text is `[CODE reason] subject, value, rule, remedy`. The texts below are the program's own; what "
    "stands in braces, and an ellipsis, is filled in. An engine of another package may have reasons of its own."
)


def tensors_page() -> str:
    """docs/tensors.md, from the contract's rows."""
    own = [row for row in GENERATOR.inputs if not (row.alias_of or row.refused)]
    parts = [
        "# Tensors",
        "Made from `python_llm/contract.py` by `make docs`. Shapes carry a batch dimension in front: `[1,1]` for one "
        "value. Over HTTP's generate routes each input is a JSON key; a key that is no input is refused by name.",
        *("## NAME-generator", _GENERATOR, "Inputs:", _rows(own), "Outputs:", _rows(GENERATOR.outputs)),
        *("### Conventions", bullets(CONVENTIONS), "### What Triton decides", bullets(OF_TRITON)),
        *("### Names of other clients", _aliases(), "Refused when set to something:", _refused()),
        *("### sampling_parameters", _KEYS, names(key for key in KEYS if key not in FOREIGN_KEYS), _foreign_keys()),
        *("### Control requests", _CONTROL, table(("operation", "is answered with"), CONTROL_OPERATIONS.items())),
        _PREFIXES,
        *("### Request parameters", _PARAMETERS, table(("parameter", "sent by"), STANDARD_PARAMETERS.items())),
    ]
    for role in ("tokenizer", "detokenizer"):
        parts += _model(role)
    parts += ["## NAME-unary", _UNARY, "Inputs: " + _names_of(UNARY.inputs), "Outputs: " + _names_of(UNARY.outputs)]
    parts += ["## NAME (the ensemble)", "Inputs: " + _names_of(ENSEMBLE.inputs)]
    parts += ["Outputs: " + _names_of(ENSEMBLE.outputs)]
    scorer = ROLES["scorer"]
    parts += ["## A scorer", _SCORER, "Inputs:", _rows(scorer.inputs), "Outputs:", _rows(scorer.outputs)]
    parts += ["## Errors", _REASONS, table(("reason", "code", "text"), error_reasons())]
    return "\n\n".join(parts) + "\n"


def _model(role: str) -> list[str]:
    contract = ROLES[role]
    head = f"max_batch_size {contract.max_batch_size}, one response for each request."
    return [f"## NAME-{role}", head, "Inputs:", _rows(contract.inputs), "Outputs:", _rows(contract.outputs)]


def _rows(rows: Sequence[Tensor]) -> str:
    lines = ((row.name, row.dtype, f"[{','.join(map(str, row.dims))}]", row.meaning) for row in rows)
    return table(("name", "type", "dims", "meaning"), lines)


def _aliases() -> str:
    lines = ((row.name, f"`{row.alias_of}`", row.meaning) for row in GENERATOR.inputs if row.alias_of)
    return table(("name", "is", "meaning"), lines)


def _refused() -> str:
    inputs = ((row.name, row.dtype, f"{row.refused}.") for row in GENERATOR.inputs if row.refused)
    outputs = ((row.name, "output", f"{row.refused}.") for row in FOREIGN_OUTPUTS)
    return table(("name", "type", "why, and what to do"), (*inputs, *outputs))


def _foreign_keys() -> str:
    return table(("key", "says"), ((key, meaning) for key, (_, meaning) in FOREIGN_KEYS.items()))


def _names_of(rows: Sequence[Tensor]) -> str:
    return names(row.name for row in rows)
