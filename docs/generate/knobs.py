"""docs/knobs.md, from the fields of ServingConfig and the comments beside them."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from dataclasses import fields
from typing import Literal, get_args, get_origin, get_type_hints

from docs.generate.tables import table
from python_llm.settings import ServingConfig

__all__ = ["knobs_page"]

_NOTES = (
    "Made from `python_llm/settings.py` by `make docs`. `triton-llm repo add NAME --set KNOB=VALUE` sets one (`--set` "
    "may be repeated); they stand in each entry's `model.json` under `serving`, those alone that differ from "
    "their defaults, and hold from the model's next load. An unknown name and a value out of range are refused. Sizes "
    "are in tokens, bytes or seconds as named.",
    "[serving.md](serving.md) tells of KV memory, scheduling and speculation, "
    "[tensorrt_llm_runtime.md](tensorrt_llm_runtime.md) what TensorRT-LLM makes of them.",
)
# What a field's name says to a reader of the code, and the table says in words, before the comment if there is one.
_IN_WORDS = {
    "kv_cache_bytes": "the cache of keys and values",
    "kv_cache_precision": "of keys and values in the KV cache",
    "inference_precision": "auto: prompts are read in bf16 where the CPU has AMX and the weights fit twice; "
    "uniform: by the same arithmetic as single tokens; f32: activations are neither quantised nor rounded to 16 bits; "
    "slower, and reproducible ([serving.md](serving.md#exactness))",
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
        said = (words_of[knob.name] for words_of in (_IN_WORDS, comments) if knob.name in words_of)
        meaning = "; ".join(said)
        lines.append((knob.name, _value(getattr(defaults, knob.name)), words, meaning))
    parts = ["# Serving knobs", *_NOTES, table(("knob", "default", "type or words", "meaning"), lines)]
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
