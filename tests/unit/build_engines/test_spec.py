from __future__ import annotations

from typing import Any

import pytest

from build_engines.errors import SpecError
from build_engines.spec import EngineSpec, default_name


@pytest.mark.parametrize(
    ("knobs", "parts"),
    [
        ({"model": ""}, ["model ''", "must not be empty", "smollm2"]),
        ({"name": "../up"}, ["name '../up'", "letters, digits", "choose another"]),
        ({"name": ".hidden"}, ["name '.hidden'"]),
        ({"name": "m-unary"}, ["name 'm-unary'", "served model 'm'", "-tokenizer, -generator, -detokenizer, -unary"]),
        ({"model": "owner/story-generator"}, ["name 'story-generator'", "choose another"]),
        ({"quant": "int3"}, ["quant 'int3'", "none, fp16, int8, int4, fp8"]),
        ({"quant": "int8", "group_size": 64}, ["group_size 64", "only int4", "choose quant int4"]),
        ({"quant": "int4", "group_size": 48}, ["group_size 48", "power of two"]),
        ({"int4_ratio": 0.5}, ["int4_ratio 0.5", "only int4", "choose quant int4"]),
        ({"quant": "int4", "int4_ratio": 0.0}, ["int4_ratio 0.0", "above 0 and at most 1"]),
        ({"int4_rest": "fp16"}, ["int4_rest 'fp16'", "only int4", "choose quant int4"]),
        ({"quant": "int4", "int4_rest": "fp32"}, ["int4_rest 'fp32'", "int8, fp16"]),
        ({"max_seq_len": -1}, ["max_seq_len -1", "0"]),
    ],
)
def test_a_knob_that_cannot_work_is_refused_by_name(knobs: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        EngineSpec(**{"model": "smollm2", **knobs})
    assert all(part in str(caught.value) for part in parts)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("smollm2", "smollm2"),
        ("owner/Some-Model_1.5B", "Some-Model_1.5B"),
        ("folder/model.Q4_0.gguf", "model.Q4_0"),
        ("folder/with space/", "with-space"),
    ],
)
def test_the_name_comes_from_the_model(model: str, name: str) -> None:
    assert default_name(model) == name
    assert EngineSpec(model=model).name == name


def test_the_current_folder_has_a_name_too(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert default_name(".") == "here"
