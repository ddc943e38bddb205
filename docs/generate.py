"""Writes the pages that are made from code: `make docs`. A test compares them with what stands in docs/."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import python_llm
from python_llm import errors
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
from python_llm.error_reasons import OF_AN_INPUT, OTHER, REASONS
from python_llm.foreign_sampling import FOREIGN_KEYS
from python_llm.metrics import FAMILIES, LABELS, Family
from python_llm.prefix_hash import PREFIX_HASH
from python_llm.sampling_parameters import KEYS
from python_llm.settings import ServingConfig

DOCS = Path(__file__).parent
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
        *("### Conventions", _list(CONVENTIONS), "### What Triton decides", _list(OF_TRITON)),
        *("### Names of other clients", _aliases(), "Refused when set to something:", _refused()),
        *("### sampling_parameters", _KEYS, _names(key for key in KEYS if key not in FOREIGN_KEYS), _foreign_keys()),
        *("### Control requests", _CONTROL, _table(("operation", "is answered with"), CONTROL_OPERATIONS.items())),
        _PREFIXES,
        *("### Request parameters", _PARAMETERS, _table(("parameter", "sent by"), STANDARD_PARAMETERS.items())),
    ]
    for role in ("tokenizer", "detokenizer"):
        parts += _model(role)
    parts += ["## NAME-unary", _UNARY, "Inputs: " + _names_of(UNARY.inputs), "Outputs: " + _names_of(UNARY.outputs)]
    parts += ["## NAME (the ensemble)", "Inputs: " + _names_of(ENSEMBLE.inputs)]
    parts += ["Outputs: " + _names_of(ENSEMBLE.outputs)]
    scorer = ROLES["scorer"]
    parts += ["## A scorer", _SCORER, "Inputs:", _rows(scorer.inputs), "Outputs:", _rows(scorer.outputs)]
    parts += ["## Errors", _REASONS, _table(("reason", "code", "text"), error_reasons())]
    return "\n\n".join(parts) + "\n"


def _model(role: str) -> list[str]:
    table = ROLES[role]
    head = f"max_batch_size {table.max_batch_size}, one response for each request."
    return [f"## NAME-{role}", head, "Inputs:", _rows(table.inputs), "Outputs:", _rows(table.outputs)]


def _rows(rows: Sequence[Tensor]) -> str:
    lines = ((row.name, row.dtype, f"[{','.join(map(str, row.dims))}]", row.meaning) for row in rows)
    return _table(("name", "type", "dims", "meaning"), lines)


def _aliases() -> str:
    lines = ((row.name, f"`{row.alias_of}`", row.meaning) for row in GENERATOR.inputs if row.alias_of)
    return _table(("name", "is", "meaning"), lines)


def _refused() -> str:
    inputs = ((row.name, row.dtype, f"{row.refused}.") for row in GENERATOR.inputs if row.refused)
    outputs = ((row.name, "output", f"{row.refused}.") for row in FOREIGN_OUTPUTS)
    return _table(("name", "type", "why, and what to do"), (*inputs, *outputs))


def _foreign_keys() -> str:
    return _table(("key", "says"), ((key, meaning) for key, (_, meaning) in FOREIGN_KEYS.items()))


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """The first column is a name."""
    told = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    told += [f"| `{name}` | {' | '.join(cell.replace('|', chr(92) + '|') for cell in rest)} |" for name, *rest in lines]
    return "\n".join(told)


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "."


def _names_of(rows: Sequence[Tensor]) -> str:
    return _names(row.name for row in rows)


_KINDS = {name: kind.code for name, kind in vars(errors).items() if hasattr(kind, "http_status")}
# A call's name -> where its reason stands, and the code: rules of combinations are data.
_CALLS = {**{name: (0, code) for name, code in _KINDS.items()}, "_Rule": (1, errors.InvalidRequest.code)}


def error_reasons() -> list[tuple[str, str, str]]:
    """(reason, code, text) of every error that the backend raises."""
    root = Path(python_llm.__file__).parent
    found: dict[tuple[str, str], str] = {}
    for file in sorted(root.rglob("*.py")):
        if file.name != "errors.py":
            for reason, code, text in _errors_of(ast.parse(file.read_text("utf-8"))):
                found.setdefault((reason, code), text)
    return [(reason, code, text) for (reason, code), text in sorted(found.items())]


def _errors_of(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            place, code = _CALLS[node.func.id]
            if len(node.args) == place + 2:
                reason, text = (_template(argument) for argument in node.args[place:])
                if reason:
                    yield reason.replace("{name}", "<input>").replace("{one}", "<input>"), code, text


def _template(node: ast.expr) -> str:
    """The text of a literal; what is filled in stands as its name in braces, or as an ellipsis."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_piece(part) for part in node.values)
    return ""


def _piece(node: ast.expr) -> str:
    if not isinstance(node, ast.FormattedValue):
        return _template(node)
    return f"{{{node.value.id}}}" if isinstance(node.value, ast.Name) else "\u2026"


_METRICS_NOTES = (
    "Updated every `metrics_seconds` (1; 0 turns metrics off) by a thread of its own, from counts in plain Python: a "
    "token costs a look at the clock and an append. Everything counts from the model's load; probes of the launcher "
    "are left out.",
    "Each request ends once in `triton_llm_requests_finished_total`; those under `error` stand in "
    "`triton_llm_errors_total` too.",
    "A histogram takes at most 200 observations an update. Where more were seen, each bucket gets its share of 200 at "
    "its mean, from the latest 8,192: quantiles and averages hold, `_count` falls behind. Tokens per second are "
    "`rate(triton_llm_output_tokens_total)`, never a histogram's count.",
    "`nv_trt_llm_*` are NVIDIA's names for the TensorRT-LLM backend, with its labels: dashboards made for it, and the "
    "Gateway API Inference Extension (waiting, scheduled, fraction, tokens_per, max), and llm-d through it, read them. "
    "`context` is the engine's running sequences that have no token yet; `active` is waiting + running.",
    'To scale: `sum(nv_trt_llm_request_metrics{request_type="waiting"})` a ready server; then KV fraction above '
    "0.85; TTFT as a guard.",
)
_METRICS_LIFE = (
    "An unloaded model's series go. Loaded again it begins at zero.",
    "While a reloaded model stands beside its old copy, which finishes its requests, the old one publishes; the new "
    "one counts on and publishes all of it once the old one has left. (Triton 2.50 gives both the same series and dies "
    "when one of them leaves: so they take turns.)",
    "A backend process that dies leaves its last values on the port, and they do not change. The launcher then ends "
    "the whole of tritonserver, and the port with it, within about a second; the next one starts at zero.",
    "Several models, or versions, on one server differ in `model` and `version`.",
)


def metrics_page() -> str:
    """docs/metrics.md, from the table of metrics."""
    labels = _table(("label", "is"), LABELS.items())
    patterns = (f"`{pattern.replace('{input}', '<input>')}`" for pattern in OF_AN_INPUT)
    return (
        "\n\n".join(
            [
                "# Metrics",
                "Made from `python_llm/metrics.py` by `make docs`. On Triton's metrics port (`METRICS_PORT`, 8002), "
                "beside its own `nv_inference_*`: the same names whatever the engine is. What an engine lacks reads 0.",
                *("Every series has", labels),
                *("## The table", _table(("name", "type", "unit", "labels", "what"), map(_metric, FAMILIES))),
                *(
                    "## Buckets",
                    _table(("histogram", "upper bounds"), (_bounds(row) for row in FAMILIES if row.bounds)),
                ),
                *("## How to read them", _list(_METRICS_NOTES)),
                *("## Life and death", _list(_METRICS_LIFE)),
                "## Reasons",
                f"`reason` is one of these, {', '.join(patterns)}, or `{OTHER}`. docs/tensors.md has their texts.",
                _names(sorted(REASONS)),
            ]
        )
        + "\n"
    )


def _metric(row: Family) -> tuple[str, ...]:
    values = [values[0] for values in row.sources if values]
    label = f"`{row.labels[0]}`: {', '.join(values)}" if values else ", ".join(f"`{name}`" for name in row.labels)
    return row.name, row.kind, row.unit, label, row.help


def _bounds(row: Family) -> tuple[str, str]:
    return row.name, ", ".join(f"{bound:g}" if bound < 1e5 else f"{bound:.0f}" for bound in row.bounds)


_KNOBS_NOTES = (
    "Made from `python_llm/settings.py` by `make docs`. `triton-llm repo add NAME --set KNOB=VALUE` sets one (`--set` "
    "may be repeated); they stand in each entry's `model.json` under `serving`, those alone that differ from "
    "their defaults, and hold from the model's next load. An unknown name and a value out of range are refused. Sizes "
    "are in tokens, bytes or seconds as named.",
    "[serving.md](serving.md) tells of KV memory, scheduling and speculation, "
    "[tensorrt_llm_runtime.md](tensorrt_llm_runtime.md) what TensorRT-LLM makes of them.",
)
# What a field's name says to a reader of the code, and the table says in words, before the comment if there is one.
_KNOBS_IN_WORDS = {
    "kv_cache_bytes": "the cache of keys and values",
    "kv_cache_precision": "of keys and values in the KV cache",
    "inference_precision": "f32: activations are neither quantised nor rounded to 16 bits; slower, and reproducible "
    "([serving.md](serving.md#exactness))",
    "prefix_cache": "blocks of a beginning that was computed before are shared",
    "detokenizer_instances": "processes of the ensemble's last step",
}


def knobs_page() -> str:
    """docs/knobs.md, from the fields of ServingConfig and the comments beside them."""
    comments = _comments_of_fields(inspect.getsource(ServingConfig))
    types = get_type_hints(ServingConfig)
    defaults = ServingConfig()
    lines = []
    for knob in fields(ServingConfig):
        kind = types[knob.name]
        words = ", ".join(get_args(kind)) if get_origin(kind) is Literal else getattr(kind, "__name__", "object")
        said = (words_of[knob.name] for words_of in (_KNOBS_IN_WORDS, comments) if knob.name in words_of)
        meaning = "; ".join(said)
        lines.append((knob.name, _value(getattr(defaults, knob.name)), words, meaning))
    parts = ["# Serving knobs", *_KNOBS_NOTES, _table(("knob", "default", "type or words", "meaning"), lines)]
    return "\n\n".join(parts) + "\n"


def _comments_of_fields(source: str) -> dict[str, str]:
    """Field name -> the comment that ends its line."""
    on_line = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    return {
        node.target.id: on_line[node.end_lineno]
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in on_line
    }


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return {"": "none", "{}": "none"}.get(str(value), str(value))


PAGES = {"tensors.md": tensors_page, "metrics.md": metrics_page, "knobs.md": knobs_page}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (DOCS / name).write_text(render(), "utf-8")
