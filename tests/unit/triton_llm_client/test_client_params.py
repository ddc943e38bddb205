"""Parameters and prompts as tensors of the contract."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from python_llm.contract import GENERATOR
from python_llm.errors import InvalidRequest
from triton_llm_client.params import GenerateParams
from triton_llm_client.prompts import prompt_tensors

FIELDS = {field.name for field in fields(GenerateParams)} - {"more"}
# What the client sets or reads itself, and what is the same as a field.
NO_FIELDS = {
    "text_input",
    "input_ids",
    "input_lengths",
    "messages",
    "stream",
    "accumulate_tokens",
    "return_finish_reason",
    "return_num_input_tokens",
    "return_num_output_tokens",
    "return_cumulative_logprob",
    "stop",
    "control",
    "every_output",
}
BY_ITS_OTHER_NAME = {"lora_task_id"}  # goes through ``more``; the field is lora_name


def test_every_served_input_is_a_field_or_the_clients_own() -> None:
    served = {row.name for row in GENERATOR.inputs if not row.alias_of and not row.refused}
    assert served - FIELDS == NO_FIELDS | BY_ITS_OTHER_NAME
    assert served >= FIELDS


@pytest.mark.parametrize(("name", "nearest"), [("max_token", "max_tokens"), ("logits_bias", "logit_bias")])
def test_an_unknown_keyword_is_the_callers_mistake_and_names_the_nearest(name: str, nearest: str) -> None:
    unknown: Any = {name: 1}
    for said in (unknown, {"more": unknown}):
        with pytest.raises(InvalidRequest, match=f"parameter '{name}': .* did you mean '{nearest}'") as caught:
            GenerateParams(**said)
        assert caught.value.reason == "unknown_parameter"
    with pytest.raises(InvalidRequest, match=r"known names: .*top_log_probs"):
        GenerateParams(**{"zzzz": 1})  # type: ignore[arg-type]


def test_parameters_can_be_replaced_and_printed() -> None:
    params = replace(GenerateParams(max_tokens=3), top_k=2)
    assert params.tensors() == {"max_tokens": (3,), "top_k": (2,)}
    assert "max_tokens=3" in repr(params)


def test_objects_travel_as_json() -> None:
    schema = {"type": "object", "title": "é"}
    sent = GenerateParams(
        logit_bias={5: -1.5, 7: 2},
        guided_decoding_guide_type="json_schema",
        guided_decoding_guide=schema,
        sampling_parameters={"n": 2},
        early_stopping=True,
    ).tensors()
    assert json.loads(str(sent["logit_bias"][0])) == {"5": -1.5, "7": 2}
    assert sent["guided_decoding_guide"] == (json.dumps(schema, ensure_ascii=False),)
    assert sent["sampling_parameters"] == ('{"n": 2}',)
    assert sent["early_stopping"] == (1,)
    assert GenerateParams(logit_bias='{"5": 1}', guided_decoding_guide="a|b").tensors() == {
        "logit_bias": ('{"5": 1}',),
        "guided_decoding_guide": ("a|b",),
    }


def test_numbers_and_lists_of_numpy_are_taken() -> None:
    params = GenerateParams(max_tokens=np.int32(3), resume_ids=np.arange(2))  # type: ignore[arg-type]
    assert {name: list(values) for name, values in params.tensors().items()} == {
        "max_tokens": [3],
        "resume_ids": [0, 1],
    }


@pytest.mark.parametrize("value", [{"a": 1}, object(), iter([1])])
def test_what_is_neither_a_value_nor_a_list_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="top_p") as caught:
        GenerateParams(top_p=value).tensors()
    assert caught.value.reason == "wrong_type"


@pytest.mark.parametrize("bias", [{5: float("nan")}, {5: object()}])
def test_objects_that_are_no_json_are_refused(bias: Any) -> None:
    with pytest.raises(InvalidRequest, match="logit_bias"):
        GenerateParams(logit_bias=bias).tensors()


@pytest.mark.parametrize("name", sorted(NO_FIELDS))
def test_what_the_client_sets_itself_is_reserved(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        GenerateParams(more={name: 1})
    assert caught.value.reason == "reserved_parameter"


def test_only_what_is_set_is_sent() -> None:
    assert GenerateParams().tensors() == {}
    assert GenerateParams(max_tokens=0, temperature=0.0, ignore_eos=False).tensors() == {
        "max_tokens": (0,),
        "temperature": (0.0,),
        "ignore_eos": (False,),
    }
    assert GenerateParams(stop_words=["a", "b"], resume_ids=()).tensors() == {"stop_words": ["a", "b"]}


def test_more_takes_any_other_input_by_name() -> None:
    assert GenerateParams(more={"min_tokens": 2}).tensors() == {"min_tokens": (2,)}
    with pytest.raises(InvalidRequest, match="did you mean 'max_tokens'"):
        GenerateParams(more={"max_token": 2})
    with pytest.raises(InvalidRequest, match="the client sets it"):
        GenerateParams(more={"stream": True})


def test_a_prompt_has_three_forms() -> None:
    assert prompt_tensors("text") == {"text_input": ("text",)}
    assert prompt_tensors((1, 2)) == {"input_ids": (1, 2)}
    assert prompt_tensors([{"role": "user"}]) == {"messages": ('[{"role": "user"}]',)}
    with pytest.raises(InvalidRequest) as caught:
        prompt_tensors([])
    assert caught.value.reason == "empty_prompt"
    with pytest.raises(InvalidRequest) as caught:
        prompt_tensors([{"role": object()}])
    assert caught.value.reason == "invalid_messages"
