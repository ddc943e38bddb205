"""The text of config.pbtxt, from the tensor table: one function for a role's model, one for the ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from python_llm.contract import CACHED_OUTPUTS, DTYPES, ENSEMBLE, ROLES, RoleContract, Tensor, role_model
from python_llm.settings import Role, ServingConfig
from python_llm.version_policy import FIRST, render_policy

__all__ = ["BACKEND", "ROLES_OF_A_MODEL", "render_ensemble", "render_role", "render_scorer"]

BACKEND = "python_llm"
# In the order of loading: the ensemble's steps come before it, the generator before what asks it.
ROLES_OF_A_MODEL: tuple[Role, ...] = ("tokenizer", "generator", "detokenizer", "unary")

# What a role's config says beside its tensors.
_EXTRAS: Mapping[str, Sequence[str]] = {
    "tokenizer": ("dynamic_batching { }",),
    "generator": (),
    "detokenizer": ("dynamic_batching { preserve_ordering: true }",),  # else chunks of one stream overtake each other
    "unary": (),
}
# Requests of unequal lengths share a batch.
_RAGGED = {("detokenizer", "chunk_ids"), ("scorer", "input_ids"), ("scorer", "attention_mask")}
_MICROSECONDS = 1000  # of a millisecond
_NOTHING: Mapping[str, str] = {}


def render_role(
    name: str, role: Role, instances: int = 1, told: Mapping[str, str] = _NOTHING, live: Sequence[int] = (FIRST,)
) -> str:
    """The config.pbtxt of the model that plays ``role`` for the served model ``name``.

    ``told``: its parameters. ``live``: the versions that Triton is to have.
    """
    contract = ROLES[role]
    return _render(
        role_model(name, role),
        contract,
        f'backend: "{BACKEND}"',
        _tensors("input", contract.inputs, role=role),
        _tensors("output", contract.outputs),
        f"instance_group [ {{ count: {instances}, kind: KIND_CPU }} ]",
        *_EXTRAS[role],
        *(f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in told.items()),
        render_policy(live),
    )


def render_scorer(name: str, serving: ServingConfig) -> str:
    """The config.pbtxt of the scorer that is served under ``name`` itself."""
    contract = ROLES["scorer"]
    outputs = [row for row in contract.outputs if not serving.scorer_cache_bytes or row.name in CACHED_OUTPUTS]
    delay = round(serving.scorer_delay_ms * _MICROSECONDS)
    return _render(
        name,
        contract,
        f'backend: "{BACKEND}"',
        _tensors("input", contract.inputs, role="scorer"),
        _tensors("output", outputs),
        "instance_group [ { count: 1, kind: KIND_CPU } ]",
        f"dynamic_batching {{ max_queue_delay_microseconds: {delay} }}",
        *(("response_cache { enable: true }",) if serving.scorer_cache_bytes else ()),
    )


def render_ensemble(name: str, version: int = FIRST) -> str:
    """The config.pbtxt of the served model ``name``: tokenizer, generator, detokenizer, all of this very version."""
    tokenizer, generator, detokenizer = ROLES["tokenizer"], ROLES["generator"], ROLES["detokenizer"]
    passed = {row.name for row in ENSEMBLE.inputs} - {row.name for row in tokenizer.inputs}
    made = {row.name: f"_{row.name}" for row in tokenizer.outputs}
    chunk = {row.name: f"_{row.name}" for row in detokenizer.inputs}
    said = {row.name: row.name for row in ENSEMBLE.outputs if row.name not in _names(detokenizer.outputs)}
    steps = (
        _step(name, "tokenizer", version, {row.name: row.name for row in tokenizer.inputs}, made),
        _step(name, "generator", version, made | {n: n for n in _names(generator.inputs) if n in passed}, chunk | said),
        _step(name, "detokenizer", version, chunk, {row.name: row.name for row in detokenizer.outputs}),
    )
    return _render(
        name,
        ENSEMBLE,
        'platform: "ensemble"',
        _tensors("input", ENSEMBLE.inputs, role="ensemble"),
        _tensors("output", ENSEMBLE.outputs),
        "ensemble_scheduling {\n  step [\n" + ",\n".join(steps) + "\n  ]\n}",
        render_policy((version,)),
    )


def _render(model: str, contract: RoleContract, platform: str, *parts: str) -> str:
    decoupled = str(contract.decoupled).lower()
    head = (f'name: "{model}"', platform, f"max_batch_size: {contract.max_batch_size}")
    # An ensemble is decoupled when one of its steps is; Triton lets it not say so itself.
    policy = () if platform.startswith("platform") else (f"model_transaction_policy {{ decoupled: {decoupled} }}",)
    return "\n".join((*head, *policy, *parts, ""))


def _tensors(kind: str, rows: Sequence[Tensor], *, role: str = "") -> str:
    return f"{kind} [\n" + ",\n".join(f"  {_tensor(row, kind, role)}" for row in rows) + "\n]"


def _tensor(row: Tensor, kind: str, role: str) -> str:
    dims = ", ".join(map(str, row.dims))
    optional = ", optional: true" if kind == "input" and row.optional else ""
    ragged = ", allow_ragged_batch: true" if (role, row.name) in _RAGGED else ""
    return f'{{ name: "{row.name}", data_type: {DTYPES[row.dtype]}, dims: [ {dims} ]{optional}{ragged} }}'


def _step(name: str, role: str, version: int, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    lines = [f'      model_name: "{role_model(name, role)}"', f"      model_version: {version}"]
    lines += [f'      input_map {{ key: "{key}" value: "{value}" }}' for key, value in inputs.items()]
    lines += [f'      output_map {{ key: "{key}" value: "{value}" }}' for key, value in outputs.items()]
    return "    {\n" + "\n".join(lines) + "\n    }"


def _names(rows: Sequence[Tensor]) -> list[str]:
    return [row.name for row in rows]
