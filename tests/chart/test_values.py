"""values.yaml, its schema, and what of both belongs to the product."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any

import pytest
import yaml

from build_engines import cli as build_cli
from build_engines.cli_gpu import gpu_knobs
from build_engines.spec import EngineSpec
from deploy.helm.schema import BUILD_OPTIONS, read_values, schema, text
from python_llm.settings import ServingConfig
from tests.chart.render import CHART, render
from tests.chart.tools import ROOT

OBJECTS = [value for value in read_values() if isinstance(value.default, dict)]


def test_the_schema_is_what_is_made_of_the_values() -> None:
    assert (CHART / "values.schema.json").read_text("utf-8") == text(), "run: make helm-schema"


@pytest.mark.parametrize("value", list(read_values()), ids=lambda value: ".".join(value.path))
def test_every_value_is_documented(value: Any) -> None:
    assert value.text.endswith("."), value.path


def closed(node: dict[str, Any], where: str = "") -> list[str]:
    """Objects with keys of their own that let others in."""
    found = [where] if "properties" in node and node.get("additionalProperties") is not False else []
    for name, each in node.get("properties", {}).items():
        found += closed(each, f"{where}.{name}")
    return found + (closed(node["items"], f"{where}[]") if "items" in node else [])


def test_no_object_takes_other_keys() -> None:
    assert not closed(schema())


def test_a_model_may_set_all_that_has_a_default() -> None:
    found = schema()["properties"]
    assert set(found["models"]["items"]["properties"]) == {"name", *found["modelDefaults"]["properties"]}


def test_every_serving_knob_is_a_value() -> None:
    knobs = {each.name for each in dataclasses.fields(ServingConfig)}
    assert set(schema()["properties"]["modelDefaults"]["properties"]["serving"]["properties"]) == knobs


def test_every_build_knob_is_a_value_or_stands_elsewhere() -> None:
    """A new knob of EngineSpec shows up by itself; what is left out is left out by name."""
    assert len(BUILD_OPTIONS) > 15
    assert set(schema()["properties"]["modelDefaults"]["properties"]["buildOptions"]["properties"]) == set(
        BUILD_OPTIONS
    )


OPTIONS: dict[str, Any] = {
    "int4_ratio": 0.5,
    "group_size": 64,
    "check_quality": False,
    "allow_quality_loss": True,
    "trust_remote_code": False,
    "kv_dtype": "fp8",
    "lora_modules": ["attn_q", "attn_v"],
    "max_lora_rank": 16,
    "plugins": ["gemm_plugin=auto"],
    "log_probs": "all",
    "max_beam_width": 4,
}


def test_the_builds_arguments_mean_what_the_values_say() -> None:
    limits = {"maxBatchSize": 8, "maxInputLen": 100, "maxSeqLen": 1000000, "maxNumTokens": 4096}
    model = {"name": "M.1", "source": "org/M", "revision": "abc", "engine": "tensorrt_llm", "quant": "int4", "tp": 2}
    values = {"models": [{**model, "limits": limits, "gpu": {"kind": "H100"}, "buildOptions": OPTIONS}]}
    (container,) = render(values).one("Job")["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["triton-llm", "build"]
    parser = argparse.ArgumentParser()
    build_cli.add_arguments(parser)
    read = parser.parse_args(container["args"])
    assert (read.model, read.name, read.engine, read.quant, read.revision) == (
        "org/M",
        "M.1",
        "tensorrt_llm",
        "int4",
        "abc",
    )
    assert (read.max_batch_size, read.max_input_len, read.max_seq_len, read.max_num_tokens) == tuple(limits.values())
    knobs = gpu_knobs(read)
    assert (knobs["tp"], knobs["pp"], knobs["gpu"], knobs["gpus_per_node"]) == (2, 1, "H100", 8)
    told = {**vars(read), **knobs, "check_quality": not read.no_quality_check}
    assert {name: list(told[name]) if isinstance(told[name], tuple) else told[name] for name in OPTIONS} == OPTIONS
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in OPTIONS.items()}
    EngineSpec(model="org/M", quant="int4", **given)


def test_the_libraries_of_the_engines_key_are_those_of_the_project() -> None:
    found = yaml.safe_load((CHART / "files" / "libraries.yaml").read_text("utf-8"))
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    pins = dict(re.findall(r'"([a-z-]+)==([0-9.]+)"', project))
    assert found["openvino"] == pins["openvino"]
    assert found["tensorrt_llm"] == pins["tensorrt-llm"]


def test_the_chart_has_the_projects_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert "dependencies" not in chart
