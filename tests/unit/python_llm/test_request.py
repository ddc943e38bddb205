"""From tensors to values and back to arrays, by the contract's rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from python_llm.contract import GENERATOR, STANDARD_PARAMETERS
from python_llm.errors import InvalidRequest
from python_llm.request import read_parameters, read_values
from python_llm.response import output_arrays
from triton_python_backend_utils import Tensor


def text(*items: str | bytes) -> npt.NDArray[Any]:
    return np.array([[item.encode() if isinstance(item, str) else item for item in items]], dtype=np.object_)


def test_every_row_is_read_as_plain_python() -> None:
    tensors = [
        Tensor("text_input", text("né")),
        Tensor("input_ids", np.array([[1, 2, 3]], np.int32)),
        Tensor("stop_words", text("a", "b")),
        Tensor("max_tokens", np.array([[7]], np.int32)),
        Tensor("stream", np.array([[True]])),
        Tensor("temperature", np.array([[0.5]], np.float32)),
        Tensor("seed", np.array([[2**64 - 1]], np.uint64)),
        Tensor("messages", np.array([["text already"]], dtype=np.object_)),
    ]
    values = read_values(tensors, GENERATOR)
    assert values == {
        "text_input": "né",
        "input_ids": [1, 2, 3],
        "stop_words": ["a", "b"],
        "max_tokens": 7,
        "stream": True,
        "temperature": 0.5,
        "seed": 2**64 - 1,
        "messages": "text already",
    }
    assert type(values["max_tokens"]) is int
    assert type(values["stream"]) is bool


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_the_batch_dimension_may_be_there_or_not(shape: tuple[int, ...]) -> None:
    assert read_values([Tensor("max_tokens", np.full(shape, 3, np.int32))], GENERATOR) == {"max_tokens": 3}


def test_an_empty_list_is_a_list() -> None:
    assert read_values([Tensor("input_ids", np.zeros((1, 0), np.int32))], GENERATOR) == {"input_ids": []}


@pytest.mark.parametrize(
    ("tensor", "reason", "words"),
    [
        (Tensor("promt", text("x")), "unknown_input", ["'promt'"]),
        (Tensor("text_input", text(b"ab\xffcd")), "invalid_utf8", ["text_input", "byte 2", "UTF-8"]),
        (Tensor("stop_words", text("a", b"\xc3")), "invalid_utf8", ["stop_words", "UTF-8"]),
        (Tensor("messages", text(b"\xed\xa0\x80")), "invalid_utf8", ["messages", "UTF-8"]),
        (Tensor("text_input", text("a", "b")), "wrong_shape", ["text_input", "2 values", "[1,1]"]),
        (Tensor("max_tokens", np.zeros((1, 0), np.int32)), "wrong_shape", ["max_tokens", "0 values", "[1,1]"]),
        (Tensor("seed", np.zeros((1, 3), np.uint64)), "wrong_shape", ["seed", "3 values", "[1,1]"]),
    ],
)
def test_bad_tensors_are_the_callers_mistake(tensor: Tensor, reason: str, words: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_values([tensor], GENERATOR)
    assert (caught.value.code, caught.value.reason) == ("INVALID_ARG", reason)
    assert all(word in caught.value.text for word in words)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("max_token", "did you mean 'max_tokens'"), ("temprature", "'temperature'"), ("zzzz", "docs/tensors.md")],
)
def test_a_misspelt_input_over_http_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_parameters(json.dumps({name: 1}), GENERATOR)
    assert (caught.value.code, caught.value.reason) == ("INVALID_ARG", "unknown_parameter")
    assert f"'{name}'" in caught.value.text
    assert nearest in caught.value.text


def test_what_standard_clients_attach_passes() -> None:
    assert read_parameters("", GENERATOR) == {}
    parameters = dict.fromkeys(STANDARD_PARAMETERS, 1)
    assert read_parameters(json.dumps(parameters), GENERATOR) == parameters


def test_outputs_have_the_contracts_types_and_shapes() -> None:
    values = {
        "seed_used": 2**64 - 1,
        "text_output": "né",
        "output_ids": (1, 2, 3),
        "finish_reason": "",
        "num_output_tokens": 3,
    }
    arrays = output_arrays(values, GENERATOR)
    assert list(arrays) == [row.name for row in GENERATOR.outputs if row.name in values]
    assert all(array.shape[0] == 1 and array.ndim == 2 for array in arrays.values())
    assert arrays["text_output"][0, 0] == "né".encode()
    assert arrays["output_ids"].dtype == np.int32
    assert arrays["seed_used"].dtype == np.uint64
    assert int(arrays["seed_used"][0, 0]) == 2**64 - 1
    assert output_arrays({"output_ids": ()}, GENERATOR)["output_ids"].shape == (1, 0)


def test_an_output_of_rows_is_filled_up_with_zeros() -> None:
    array = output_arrays({"output_log_probs": [(-1.0, -2.0), (), (-0.5,)]}, GENERATOR)["output_log_probs"]
    assert array.dtype == np.float32
    assert array.tolist() == [[[-1.0, -2.0], [0.0, 0.0], [-0.5, 0.0]]]
    assert output_arrays({"output_log_probs": [()]}, GENERATOR)["output_log_probs"].shape == (1, 1, 0)


def test_what_is_not_known_is_an_empty_array_of_its_type() -> None:
    names = [row.name for row in GENERATOR.outputs]
    arrays = output_arrays(dict.fromkeys(names, ()), GENERATOR)
    assert {name: array.shape for name, array in arrays.items()} == {
        row.name: (1, *[0] * len(row.dims)) for row in GENERATOR.outputs
    }
    again = output_arrays(dict.fromkeys(names, ()), GENERATOR)
    assert all(arrays[name] is not again[name] for name in names)  # the stub dies of arrays in two responses


def test_several_values_of_one_row() -> None:
    arrays = output_arrays(
        {"text_output": ["a", "n\u00e9"], "finish_reason": "stop", "num_output_tokens": [3, 4]}, GENERATOR
    )
    assert arrays["text_output"].tolist() == [[b"a", "n\u00e9".encode()]]
    assert arrays["finish_reason"].tolist() == [[b"stop"]]
    assert arrays["num_output_tokens"].tolist() == [[3, 4]]
