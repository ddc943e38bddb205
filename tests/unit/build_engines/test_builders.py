from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from build_engines.builders import builder_names, check_spec, find_builder
from build_engines.errors import SpecError
from build_engines.spec import EngineSpec


def test_auto_is_openvino_here() -> None:
    assert find_builder("auto") is find_builder("openvino")
    assert find_builder("auto").kind == "openvino-ir"


@pytest.mark.parametrize("engine", ["caffe", "_tables"])
def test_an_engine_without_a_builder_is_refused_by_name(engine: str) -> None:
    with pytest.raises(SpecError) as caught:
        find_builder(engine)
    assert all(part in str(caught.value) for part in (f"engine '{engine}'", "there are: ", "openvino"))


def test_a_slip_of_the_pen_is_guessed() -> None:
    with pytest.raises(SpecError, match="did you mean 'openvino'"):
        find_builder("open_vino")


def test_another_distribution_adds_a_builder_by_an_entry_point(copy_engine: Path) -> None:
    assert "copy" in builder_names()
    assert find_builder("copy").engine == "copy"


@pytest.mark.parametrize(
    ("knobs", "parts"),
    [
        ({"quant": "fp8"}, ["quant 'fp8'", "openvino engine lacks it", "none, int8, int4"]),
        ({"max_seq_len": 4096}, ["max_seq_len 4096", "not compiled for limits", "serving knobs"]),
    ],
)
def test_what_the_engine_lacks_is_refused_with_what_it_has(knobs: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        check_spec(EngineSpec(model="smollm2", **knobs), find_builder("openvino"))
    assert all(part in str(caught.value) for part in parts)
