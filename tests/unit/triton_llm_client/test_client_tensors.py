"""Requests are built by the contract's rows."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.contract import DTYPES, GENERATOR, Tensor
from python_llm.errors import InvalidRequest
from triton_llm_client.tensors import checked_inputs, json_fields, pack, shape_of, unpack

EXAMPLES: dict[str, Any] = {
    "BYTES": "text",
    "BOOL": True,
    "UINT8": 3,
    "INT32": 3,
    "INT64": 3,
    "UINT64": 2**64 - 1,
    "FP16": 0.5,
    "FP32": 0.5,
}
SIZES = {"BOOL": 1, "UINT8": 1, "FP16": 2, "INT32": 4, "INT64": 8, "UINT64": 8, "FP32": 4}


@pytest.mark.parametrize("row", GENERATOR.inputs, ids=lambda row: row.name)
def test_every_input_of_the_contract_can_be_built(row: Tensor) -> None:
    count = 1 if row.dims == (1,) else 3
    ((found, values),) = checked_inputs(GENERATOR, {row.name: [EXAMPLES[row.dtype]] * count})
    assert found is row
    assert shape_of(GENERATOR, len(values)) == [1, count]
    raw = pack(row.dtype, values)
    assert unpack(row.dtype, raw) == (EXAMPLES[row.dtype],) * count
    assert len(raw) == count * SIZES.get(row.dtype, 8)
    field = json_fields([(row, values)])[row.name]
    assert json.loads(json.dumps(field)) == (EXAMPLES[row.dtype] if count == 1 else [EXAMPLES[row.dtype]] * 3)


def test_every_dtype_of_the_contract_can_be_read() -> None:
    for dtype in DTYPES:
        assert unpack(dtype, b"") == ()
        assert unpack(dtype, pack(dtype, [EXAMPLES[dtype]] * 2)) == (EXAMPLES[dtype],) * 2


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_text_survives_the_wire(texts: list[str]) -> None:
    assert unpack("BYTES", pack("BYTES", texts)) == tuple(texts)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_ids_survive_the_wire(ids: list[int]) -> None:
    assert unpack("INT32", pack("INT32", ids)) == tuple(ids)
    assert pack("INT32", ids) == b"".join(struct.pack("<i", one) for one in ids)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("max_tokens", 2**31, "out_of_range"),
        ("max_tokens", 4294967297, "out_of_range"),
        ("max_tokens", 1.5, "wrong_type"),
        ("max_tokens", True, "wrong_type"),
        ("max_tokens", "5", "wrong_type"),
        ("seed", -1, "out_of_range"),
        ("temperature", math.nan, "out_of_range"),
        ("temperature", 1e39, "out_of_range"),
        ("temperature", "hot", "wrong_type"),
        ("ignore_eos", 1, "wrong_type"),
        ("text_input", 5, "wrong_type"),
        ("text_input", "half \ud800 a pair", "invalid_text"),
        ("nonsense", 1, "unknown_parameter"),
    ],
)
def test_what_no_tensor_can_hold_is_refused_before_it_is_sent(name: str, value: Any, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        checked_inputs(GENERATOR, {name: (value,)})
    assert caught.value.reason == reason
    assert name in caught.value.text


def test_one_value_where_the_row_takes_one() -> None:
    with pytest.raises(InvalidRequest, match="exactly one"):
        checked_inputs(GENERATOR, {"max_tokens": (1, 2)})
