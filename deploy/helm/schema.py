"""Makes the chart's values.schema.json: `make helm-schema`. A test compares it with what stands there.

``values.yaml`` is the one truth of the chart's own values: the lines above a key document and bound it. What belongs to
the product comes from the product: quantisations and build knobs from ``EngineSpec``, serving knobs from
``ServingConfig``. Every object takes the keys it lists and no other.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from build_engines.spec import INT4_RESTS, QUANTISATIONS, EngineSpec
from build_engines.spec_gpu import FORMS, KV_DTYPES, LOG_PROBS, SPECULATIVE
from python_llm.settings import ServingConfig

__all__ = ["BUILD_OPTIONS", "CHART", "Value", "read_values", "schema", "text"]

CHART = Path(__file__).parent / "triton-llm"

# EngineSpec's knobs that are values of their own, or mean nothing in a cluster.
_ELSEWHERE = {"model", "name", "role", "engine", "quant", "revision", "tp", "pp", "gpu", "gpus_per_node"} | {
    "max_batch_size",
    "max_input_len",
    "max_seq_len",
    "max_num_tokens",
    "bounds",
    "drift",
    "offline",
    "force",
}
_WORDS = {
    "int4_rest": INT4_RESTS,
    "form": ("", *FORMS),
    "kv_dtype": KV_DTYPES,
    "speculative": SPECULATIVE,
    "log_probs": LOG_PROBS,
}
BUILD_OPTIONS = tuple(each.name for each in fields(EngineSpec) if each.name not in _ELSEWHERE)

# Keys whose objects are Kubernetes' own, or maps of the user's.
_MAPS = {"labels", "annotations", "podAnnotations", "nodeSelector", "requests", "limits", "devices"}
_KUBERNETES = {"affinity"}
_LISTS_OF_OBJECTS = {"tolerations", "parentRefs", "gatewayFrom", "serversFrom", "monitoringFrom"}
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_ROLES = r"-(tokenizer|generator|detokenizer|unary|scorer)$"


class Value:
    """A key of values.yaml with the comments above it. ``path``: its keys, from the outside in."""

    def __init__(self, path: tuple[str, ...], default: Any, text: str, bounds: Mapping[str, Any]) -> None:
        self.path, self.default, self.text, self.bounds = path, default, text, bounds


def read_values(file: Path = CHART / "values.yaml") -> Iterator[Value]:
    """Every key that stands on a line of its own, in order; keys of list items are left out."""
    source = file.read_text("utf-8")
    values = yaml.safe_load(source)
    path: list[tuple[int, str]] = []
    comment, bounds = "", dict[str, Any]()
    for line in source.splitlines():
        told = line.strip()
        if told.startswith("# -- "):
            comment = told.removeprefix("# -- ")
        elif told.startswith("# @schema "):
            bounds = json.loads(told.removeprefix("# @schema "))
        elif told and not told.startswith(("#", "- ")):
            indent = len(line) - len(line.lstrip())
            path = [(at, key) for at, key in path if at < indent]
            if path and path[-1][1] == "monitoringFrom":
                continue
            path.append((indent, told.partition(":")[0]))
            keys = tuple(key for _, key in path)
            yield Value(keys, _at(values, keys), comment, bounds)
            comment, bounds = "", {}


def schema() -> dict[str, Any]:
    """The whole schema, as JSON."""
    root = _object({})
    for value in read_values():
        node = root
        for key in value.path[:-1]:
            node = node["properties"][key]
        node["properties"][value.path[-1]] = _of(value)
    model = root["properties"]["modelDefaults"]
    model["properties"]["quant"] |= {"enum": list(QUANTISATIONS)}
    model["properties"]["buildOptions"] = _options() | {
        "description": model["properties"]["buildOptions"]["description"]
    }
    knobs = _knobs()
    canary = model["properties"]["canary"]["properties"]
    canary["quant"] |= {"enum": ["", *QUANTISATIONS]}
    for each in (model["properties"], canary):
        each["serving"] = knobs | {"description": each["serving"]["description"]}
    name = {"type": "string", "pattern": _NAME, "not": {"pattern": _ROLES}, "description": "The served model's name."}
    one = {**model, "properties": {"name": name, **model["properties"]}, "required": ["name"]}
    one.pop("description")
    models = root["properties"]["models"]
    models |= {"items": one, "minItems": 1}
    root["properties"]["global"] = {"type": "object", "description": "Helm's own; not read."}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart triton-llm", **root}


def text() -> str:
    """values.schema.json's text."""
    return json.dumps(schema(), indent=1) + "\n"


def _at(values: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        values = values[key]
    return values


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def _of(value: Value) -> dict[str, Any]:
    told = {"description": value.text} if value.text else {}
    return told | _shape(value.path[-1], value.default) | dict(value.bounds)


def _shape(key: str, default: Any) -> dict[str, Any]:
    if key in _KUBERNETES:
        return {"type": "object"}
    if key in _MAPS and not _has_own_keys(default):
        return {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
    if isinstance(default, dict):
        return _object({name: _shape(name, each) for name, each in default.items()})
    if isinstance(default, list):
        items = {"type": "object"} if key in _LISTS_OF_OBJECTS else {"type": "string"}
        return {"type": "array", "items": {"type": "integer"} if key == "buildPorts" else items}
    kinds: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
    kind = (
        "number"
        if key in ("waitingPerReplica", "tokensPerSecond", "kvFraction", "ttftSeconds")
        else kinds[type(default)]
    )
    return {"type": kind}


def _has_own_keys(default: Any) -> bool:
    """``limits`` is a model's, with keys of its own, and a container's, with the cluster's resources."""
    return isinstance(default, dict) and "maxBatchSize" in default


def _options() -> dict[str, Any]:
    hints = get_type_hints(EngineSpec)
    chosen = (each for each in fields(EngineSpec) if each.name in BUILD_OPTIONS)
    return _object({each.name: _field(each, hints[each.name], _WORDS.get(each.name)) for each in chosen})


def _knobs() -> dict[str, Any]:
    hints = get_type_hints(ServingConfig)
    return _object({each.name: _field(each, hints[each.name], None) for each in fields(ServingConfig)})


def _field(field: Field[Any], kind: Any, words: tuple[str, ...] | None) -> dict[str, Any]:
    shape: dict[str, Any] = {"enum": list(words)} if words else _kind(kind)
    if field.default is not MISSING and isinstance(field.default, (bool, int, float, str)):
        shape = shape | {"default": field.default}
    return shape


def _kind(kind: Any) -> dict[str, Any]:
    origin = get_origin(kind)
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin in (Union, types.UnionType):
        return _kind(next(each for each in get_args(kind) if each is not type(None)))
    if origin is tuple:
        return {"type": "array", "items": {"type": "string"}}
    plain: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": plain.get(kind, "object")}


if __name__ == "__main__":
    (CHART / "values.schema.json").write_text(text(), "utf-8")
