"""Whatever a request says, it is admitted whole or refused as the caller's mistake: nothing breaks inside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hand_engine import ABLE
from python_llm.admission import Admission
from python_llm.contract import GENERATOR
from python_llm.engine import EngineLimits
from python_llm.errors import InvalidRequest, Unsupported
from python_llm.request import read_request
from python_llm.sampling_parameters import KEYS
from python_llm.settings import ServingConfig
from python_llm.tokenizer import Tokenizer
from request_inputs import tensors_of

LIMITS = EngineLimits(max_sequence_len=64, vocab_size=512, max_running=4, cache_tokens=1000)
_numbers = st.integers(-3, 600) | st.sampled_from([2**31, 2**64, -(2**70), 10**400]) | st.floats()
_texts = st.text(max_size=6) | st.sampled_from(
    ["json", "regex", "true", "5", "-1", "1e3", "nan", "{}", "[", '{"5": 1}']
)
_plain = st.none() | st.booleans() | _numbers | _texts
_json = st.recursive(_plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3))
_values = {
    "BYTES": st.text(max_size=5).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=4),
    "BOOL": st.booleans(),
    "UINT8": st.integers(0, 255),
    "INT32": st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 70),
    "UINT64": st.integers(0, 2**64 - 1) | st.integers(0, 5),
    "FP16": st.floats(width=16),
    "FP32": st.floats(width=32) | st.floats(0, 2, width=32),
}


@pytest.fixture(scope="module")
def admission(tokenizer: Tokenizer) -> Admission:
    return Admission(tokenizer, LIMITS, ABLE, ServingConfig(), (2,))


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(st.lists(st.sampled_from(GENERATOR.inputs), max_size=5, unique=True))
    return {row.name: draw(st.lists(_values[row.dtype], max_size=3) | _values[row.dtype]) for row in rows}


def admit(admission: Admission, values: dict[str, Any], parameters: str = "") -> None:
    try:
        request = admission.admit(read_request(tensors_of(values), parameters, GENERATOR), "x").request
    except (InvalidRequest, Unsupported):
        return
    assert request.prompt_ids
    assert len(request.prompt_ids) + request.max_tokens <= LIMITS.max_sequence_len
    assert 1 <= request.sequence_count <= (request.beam.width if request.beam else LIMITS.max_running)


@given(values=inputs(), whole=st.booleans())
def test_any_tensors(admission: Admission, values: dict[str, Any], whole: bool) -> None:
    admit(admission, {"input_ids": [5, 6], **values} if whole else values)


@given(said=st.dictionaries(st.sampled_from(sorted(KEYS)), _json, max_size=4))
def test_any_sampling_parameters(admission: Admission, said: dict[str, Any]) -> None:
    admit(admission, {"input_ids": [5, 6], "sampling_parameters": json.dumps(said)})


@given(said=st.dictionaries(st.sampled_from(sorted(KEYS)) | _texts, st.booleans() | _numbers | _texts, max_size=3))
def test_any_request_parameters(admission: Admission, said: dict[str, Any]) -> None:
    admit(admission, {"input_ids": [5, 6]}, json.dumps(said))


@pytest.mark.parametrize("depth", [300, 900, 2000])
def test_values_inside_each_other(admission: Admission, depth: int) -> None:
    for key in ("stop", "logit_bias", "guided_decoding", "temperature"):
        text = f'{{"{key}": {"[" * depth}{"]" * depth}}}'
        with pytest.raises(InvalidRequest):
            admission.admit(
                read_request(tensors_of({"input_ids": [5], "sampling_parameters": text}), "", GENERATOR), "x"
            )
