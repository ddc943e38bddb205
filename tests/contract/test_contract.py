"""The one tensor table: well formed, and what the committed model entry declares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from build_engines.model_config import ROLES_OF_A_MODEL
from python_llm.contract import (
    CONTROL_OPERATIONS,
    DTYPES,
    ENSEMBLE,
    GENERATOR,
    ROLES,
    STANDARD_PARAMETERS,
    UNARY,
    RoleContract,
    Tensor,
)
from python_llm.engine import FinishReason
from python_llm.response import NUMPY
from python_llm.settings import ModelEntry, Role

ROOT = Path(__file__).parents[2]
REPOSITORY = ROOT / "model_repository"


def rows(role: RoleContract) -> list[Tensor]:
    return [*role.inputs, *role.outputs]


@pytest.mark.parametrize("role", ROLES)
def test_rows_are_well_formed(role: str) -> None:
    table = ROLES[role]
    for side in (table.inputs, table.outputs):
        names = [row.name for row in side]
        assert len(set(names)) == len(names)
    for row in rows(table):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name)
        assert row.dtype in DTYPES
        assert row.dims
        assert all(dim == -1 or dim > 0 for dim in row.dims)
        assert row.meaning.endswith(".")
        assert table.input(row.name) is (row if row in table.inputs else table.input(row.name))
    assert table.input("no such row") is None


def test_every_role_of_the_settings_has_a_table() -> None:
    assert set(get_args(Role)) == set(ROLES)


def test_the_unary_view_is_the_generator_for_one_answer() -> None:
    assert not UNARY.decoupled
    assert UNARY.max_batch_size == 0  # shapes [n]
    left_out = {"stream", "streaming", "stop", "control", "every_output"}
    assert UNARY.inputs == tuple(row for row in GENERATOR.inputs if row.name not in left_out)
    of_the_generator = {row.name: row for row in GENERATOR.outputs}
    assert of_the_generator.keys() - {row.name for row in UNARY.outputs} == {"chunk_ids", "text_span"}
    for row in UNARY.outputs:
        assert row.dtype == of_the_generator[row.name].dtype
        assert len(row.dims) == len(of_the_generator[row.name].dims)
        assert row.dims[0] == -1  # of one sequence, or of several after each other


def test_every_output_type_has_an_array_type() -> None:
    for table in ROLES.values():
        assert {row.dtype for row in table.outputs} <= {*NUMPY, "BYTES"}


def test_dtypes_are_tritons() -> None:
    model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install '.[client]'")
    assert set(DTYPES.values()) <= set(model_config_pb2.DataType.keys())


def test_the_table_says_every_finish_reason() -> None:
    row = next(row for row in GENERATOR.outputs if row.name == "finish_reason")
    for reason in get_args(FinishReason):
        assert reason == "error" or reason in row.meaning  # an error is an error response


def test_control_operations_are_described() -> None:
    """And each of them is answered: one that is not would end as an unknown one's neighbour."""
    page = (ROOT / "docs/tensors.md").read_text("utf-8")
    for operation, meaning in CONTROL_OPERATIONS.items():
        assert f"| `{operation}` | {meaning} |" in page


def test_parameters_let_through_are_no_typing_slips() -> None:
    """Inputs that HTTP clients may also send as parameters are named on purpose."""
    assert {row.name for row in GENERATOR.inputs} & set(STANDARD_PARAMETERS) == {"priority", "timeout"}


def read_config(model: str) -> Any:
    """The committed config.pbtxt of a model of the default served model."""
    text_format = pytest.importorskip("google.protobuf.text_format", reason="pip install '.[client]'")
    model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install '.[client]'")
    text = (REPOSITORY / model / "config.pbtxt").read_text("utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def declared(tensors: Any) -> list[tuple[str, str, tuple[int, ...], bool]]:
    model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install '.[client]'")
    name_of = model_config_pb2.DataType.Name
    return [(t.name, name_of(t.data_type), tuple(t.dims), getattr(t, "optional", True)) for t in tensors]


def expected(table: tuple[Tensor, ...], *, inputs: bool) -> list[tuple[str, str, tuple[int, ...], bool]]:
    return [(row.name, DTYPES[row.dtype], row.dims, row.optional if inputs else True) for row in table]


@pytest.mark.parametrize(
    ("model", "table"), [*((f"smollm2-{role}", ROLES[role]) for role in ROLES_OF_A_MODEL), ("smollm2", ENSEMBLE)]
)
def test_the_committed_entries_declare_the_table(model: str, table: RoleContract) -> None:
    config = read_config(model)
    assert config.name == model
    assert declared(config.input) == expected(table.inputs, inputs=True)
    assert declared(config.output) == expected(table.outputs, inputs=False)
    assert config.max_batch_size == table.max_batch_size


@pytest.mark.parametrize("role", ROLES_OF_A_MODEL)
def test_the_committed_entries_are_models_of_ours(role: str) -> None:
    config = read_config(f"smollm2-{role}")
    assert config.backend == "python_llm"
    assert config.model_transaction_policy.decoupled == ROLES[role].decoupled
    assert [group.count for group in config.instance_group] == [1]
    assert config.HasField("dynamic_batching") == (role in ("tokenizer", "detokenizer"))


def test_chunks_of_one_stream_keep_their_order_and_batch_at_any_length() -> None:
    config = read_config("smollm2-detokenizer")
    assert config.dynamic_batching.preserve_ordering
    assert [t.allow_ragged_batch for t in config.input] == [True, False]


def test_the_ensemble_maps_every_tensor_of_its_steps() -> None:
    """What a step makes must be sent by it; what it takes must come from the ensemble or from an earlier step."""
    config = read_config("smollm2")
    steps = config.ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["smollm2-tokenizer", "smollm2-generator", "smollm2-detokenizer"]
    known = {tensor.name for tensor in config.input}
    for step, role in zip(steps, ("tokenizer", "generator", "detokenizer"), strict=True):
        assert set(step.input_map) <= {row.name for row in ROLES[role].inputs}
        assert set(step.output_map) <= {row.name for row in ROLES[role].outputs}
        assert set(step.input_map.values()) <= known
        known |= set(step.output_map.values())
    assert {tensor.name for tensor in config.output} <= known
    taken = {value for step in steps for value in step.input_map.values()}
    assert {tensor.name for tensor in config.input} <= taken  # no input of the ensemble is ignored


@pytest.mark.parametrize("role", ROLES_OF_A_MODEL)
def test_the_committed_entries_read(role: str) -> None:
    model_json = REPOSITORY / f"smollm2-{role}" / "1" / "model.json"
    entry = ModelEntry.read(model_json)
    assert entry.role == role
    assert not Path(entry.artifact).is_absolute()
    assert entry.artifact_path(model_json) == ROOT / "engines" / "smollm2"
