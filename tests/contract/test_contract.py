"""The one tensor table: well formed, and what the committed model entry declares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from python_llm import contract
from python_llm.contract import CONTROL_OPERATIONS, DTYPES, GENERATOR, ROLES, STANDARD_PARAMETERS, RoleContract, Tensor
from python_llm.engine import FinishReason
from python_llm.response import _NUMPY
from python_llm.settings import ModelEntry, Role

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "model_repository" / "smollm2-generator"


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


def test_every_output_type_has_an_array_type() -> None:
    for table in ROLES.values():
        assert {row.dtype for row in table.outputs} <= {*_NUMPY, "BYTES"}


def test_dtypes_are_tritons() -> None:
    model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install '.[client]'")
    assert set(DTYPES.values()) <= set(model_config_pb2.DataType.keys())


def test_the_table_says_every_finish_reason() -> None:
    row = next(row for row in GENERATOR.outputs if row.name == "finish_reason")
    for reason in get_args(FinishReason):
        assert reason == "error" or reason in row.meaning  # an error is an error response


def test_control_operations_are_described() -> None:
    source = Path(contract.__file__).read_text("utf-8")
    for operation in CONTROL_OPERATIONS:
        assert re.search(rf"^#   {operation} +\S", source, re.MULTILINE)


def test_parameters_let_through_are_no_typing_slips() -> None:
    """Inputs that HTTP clients may also send as parameters are named on purpose."""
    assert {row.name for row in GENERATOR.inputs} & STANDARD_PARAMETERS == {"priority", "timeout"}


@pytest.fixture(scope="module")
def config() -> Any:
    if not (ENTRY / "config.pbtxt").is_file():
        pytest.skip("model_repository/smollm2-generator is not there; write it with 'triton-llm repo add'")
    text_format = pytest.importorskip("google.protobuf.text_format", reason="pip install '.[client]'")
    model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install '.[client]'")
    return text_format.Parse((ENTRY / "config.pbtxt").read_text("utf-8"), model_config_pb2.ModelConfig())


@pytest.mark.parametrize("side", ["input", "output"])
def test_the_committed_entry_declares_the_table(config: Any, side: str) -> None:
    model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install '.[client]'")
    declared = [
        (t.name, model_config_pb2.DataType.Name(t.data_type), tuple(t.dims), getattr(t, "optional", True))
        for t in getattr(config, side)
    ]
    table = GENERATOR.inputs if side == "input" else GENERATOR.outputs
    assert declared == [(row.name, DTYPES[row.dtype], row.dims, row.optional) for row in table]


def test_the_committed_entry_is_a_decoupled_model_of_ours(config: Any) -> None:
    assert config.name == contract.generator_model("smollm2") == ENTRY.name
    assert config.backend == "python_llm"
    assert config.max_batch_size == GENERATOR.max_batch_size
    assert config.model_transaction_policy.decoupled == GENERATOR.decoupled
    assert [group.count for group in config.instance_group] == [1]
    assert not config.HasField("dynamic_batching")


def test_the_committed_entry_reads() -> None:
    model_json = ENTRY / "1" / "model.json"
    if not model_json.is_file():
        pytest.skip("model_repository/smollm2-generator is not there; write it with 'triton-llm repo add'")
    entry = ModelEntry.read(model_json)
    assert entry.role == "generator"
    assert not Path(entry.artifact).is_absolute()
    assert entry.artifact_path(model_json) == ROOT / "engines" / "smollm2"
