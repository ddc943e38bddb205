"""Every tensor name of NVIDIA's models and of vLLM's backend is served, an alias, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from python_llm.contract import ENSEMBLE, FOREIGN_OUTPUTS, GENERATOR, UNARY, Tensor
from python_llm.errors import Unsupported
from python_llm.outputs import CHUNK, OUTPUTS
from python_llm.request import read_values
from triton_python_backend_utils import Tensor as InputTensor

NAMES: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "foreign_names.json").read_text("utf-8"))[
    "models"
]
INPUTS = sorted({name for model in NAMES.values() for name in model["inputs"]})
OUTPUT_NAMES = sorted({name for model in NAMES.values() for name in model["outputs"]})
_NUMPY = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
}


def array(row: Tensor, value: Any) -> np.ndarray[Any, Any]:
    shape = (1, *(2 if dim == -1 else dim for dim in row.dims))
    dtype = np.object_ if row.dtype == "BYTES" else _NUMPY[row.dtype]
    return np.full(shape, str(value).encode() if row.dtype == "BYTES" else value, dtype=dtype)


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_is_served_or_an_alias_or_refused(name: str) -> None:
    row = GENERATOR.input(name)
    assert row is not None
    if row.alias_of:
        target = GENERATOR.input(row.alias_of)
        assert target is not None
        assert (target.alias_of, target.refused) == ("", "")
        assert (row.dtype, row.dims) == (target.dtype, target.dims)
        assert list(read_values([InputTensor(name, array(row, 1))], GENERATOR)) == [row.alias_of]
    if row.refused:
        with pytest.raises(Unsupported) as caught:
            read_values([InputTensor(name, array(row, 3))], GENERATOR)
        assert caught.value.reason == "not_supported"
        assert caught.value.text.startswith(f"{name}: ")
        assert caught.value.text.endswith(f"{row.refused}.")


@pytest.mark.parametrize("name", INPUTS)
def test_a_refused_input_that_asks_for_nothing_is_let_through(name: str) -> None:
    row = GENERATOR.input(name)
    assert row is not None
    if row.refused:
        nothing: list[Any] = ["" if row.dtype == "BYTES" else 0, row.neutral if row.dtype != "BYTES" else ""]
        for value in nothing:
            assert read_values([InputTensor(name, array(row, value))], GENERATOR) == {}
        assert read_values([InputTensor(name, array(row, 0)[:, :0])], GENERATOR) == {}


@pytest.mark.parametrize("name", OUTPUT_NAMES)
def test_an_output_is_served_or_refused_by_triton(name: str) -> None:
    refused = {row.name for row in FOREIGN_OUTPUTS}
    served = {row.name for row in GENERATOR.outputs}
    assert (name in served) != (name in refused)


@pytest.mark.parametrize("model", ["ensemble", "tensorrt_llm_bls"])
def test_the_ensemble_has_all_of_nvidias_ensembles_names(model: str) -> None:
    assert set(NAMES[model]["inputs"]) <= {row.name for row in ENSEMBLE.inputs}
    refused = {row.name for row in FOREIGN_OUTPUTS}
    assert set(NAMES[model]["outputs"]) - refused <= {row.name for row in ENSEMBLE.outputs}


def test_the_unary_view_has_the_llmapi_models_names_but_for_streams() -> None:
    assert set(NAMES["llmapi"]["inputs"]) - {row.name for row in UNARY.inputs} == {"streaming", "stop"}


def test_every_output_row_has_its_extractor() -> None:
    assert [row.name for row in (*OUTPUTS, *CHUNK)] == [row.name for row in GENERATOR.outputs]
    for row in OUTPUTS:
        assert (row.of_part is None) != (row.of_request is None)
        assert not row.flag or GENERATOR.input(row.flag) is not None
