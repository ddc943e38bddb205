"""Serving knobs and model entries: strict, and written as short as they can be."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_llm.records import RecordError, read_record
from python_llm.settings import ModelEntry, ScorerDevice, ServingConfig, Speculation


def write(folder: Path, content: str | bytes) -> Path:
    file = folder / "model.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def entry_text(**serving: Any) -> str:
    return json.dumps({"role": "generator", "artifact": "../engine", "serving": serving})


def test_the_defaults_fit_together() -> None:
    assert ServingConfig().max_num_tokens >= ServingConfig().max_running


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"max_runing": 1}, ["unknown key 'max_runing'", "did you mean 'max_running'"]),
        ({"max_running": 0}, ["max_running 0", "at least 1"]),
        ({"max_queue_size": 0}, ["max_queue_size 0", "at least 1"]),
        ({"max_num_tokens": 0}, ["max_num_tokens 0", "at least 1"]),
        ({"default_max_tokens": 0}, ["default_max_tokens 0", "at least 1"]),
        ({"kv_cache_bytes": -1}, ["kv_cache_bytes -1", "at least 0"]),
        ({"kv_host_bytes": -1}, ["kv_host_bytes -1", "at least 0"]),
        ({"kv_disk_bytes": -1}, ["kv_disk_bytes -1", "at least 0"]),
        ({"kv_disk_bytes": 1}, ["kv_disk_path ''", "absolute"]),
        ({"kv_disk_path": "kv"}, ["kv_disk_path 'kv'", "absolute"]),
        ({"max_sequence_len": -1}, ["max_sequence_len -1", "at least 0"]),
        ({"max_itl_ms": -1.0}, ["max_itl_ms -1", "at least 0"]),
        ({"ageing_seconds": float("nan")}, ["ageing_seconds nan", "at least 0"]),
        ({"memory_bytes": -1}, ["memory_bytes -1", "at least 0"]),
        ({"threads": -1}, ["threads -1", "at least 0"]),
        ({"default_timeout_seconds": -0.5}, ["default_timeout_seconds -0.5", "at least 0"]),
        ({"default_timeout_seconds": float("nan")}, ["default_timeout_seconds nan"]),
        ({"max_num_tokens": 32}, ["max_num_tokens 32", "64", "max_running", "raise it"]),
        ({"kv_cache_precision": "u4"}, ["kv_cache_precision", "'u4'", "u8, f16, f32"]),
        ({"inference_precision": "bf16"}, ["inference_precision", "'bf16'", "auto, uniform, f32"]),
        ({"exclude_input_in_output": 1}, ["exclude_input_in_output", "1", "true or false"]),
        ({"prefix_cache": "false"}, ["prefix_cache", "'false'", "true or false"]),
        ({"max_running": "8"}, ["max_running", "'8'", "a whole number"]),
    ],
)
def test_bad_knobs_are_refused_by_name(tmp_path: Path, serving: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(RecordError) as caught:
        ModelEntry.read(write(tmp_path, entry_text(**serving)))
    for word in [*words, "model.json"]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["repo add"]),
        (b"\xff\xfe{}", ["utf-8", "repo add"]),
        ("[]", ["JSON object"]),
        ('{"role": "generator"}', ["missing artifact"]),
        ('{"role": "generater", "artifact": "x"}', ["'generater'", "generator"]),
        ('{"role": "generator", "artifact": "x", "servng": {}}', ["'servng'", "did you mean 'serving'"]),
    ],
)
def test_bad_entries_are_refused_with_the_file_named(tmp_path: Path, content: str | bytes, words: list[str]) -> None:
    file = write(tmp_path, content)
    with pytest.raises(RecordError) as caught:
        ModelEntry.read(file)
    for word in [*words, str(file)]:
        assert word in str(caught.value)


def test_a_missing_entry_is_refused_with_the_file_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nowhere.json'.*repo add"):
        ModelEntry.read(tmp_path / "nowhere.json")


def test_the_artifact_is_found_beside_the_entry_or_absolutely(tmp_path: Path) -> None:
    model_json = tmp_path / "models" / "x" / "1" / "model.json"
    relative = ModelEntry("generator", "../../../engines/x")
    assert relative.artifact_path(model_json) == (tmp_path / "engines" / "x").resolve()
    absolute = ModelEntry("generator", str(tmp_path / "elsewhere"))
    assert absolute.artifact_path(model_json) == (tmp_path / "elsewhere").resolve()


def test_defaults_are_not_written() -> None:
    assert json.loads(ModelEntry("generator", "x").to_json())["serving"] == {}


_configs = st.builds(
    ServingConfig,
    max_running=st.integers(1, 64),
    max_queue_size=st.integers(1, 10_000),
    max_num_tokens=st.integers(64, 10_000),
    max_itl_ms=st.floats(0, 1e9),
    ageing_seconds=st.floats(0, 1e9),
    default_max_tokens=st.integers(1, 10_000),
    max_sequence_len=st.integers(0, 10_000),
    default_timeout_seconds=st.floats(0, 1e9),
    exclude_input_in_output=st.booleans(),
    kv_cache_bytes=st.integers(0, 1 << 50),
    kv_host_bytes=st.integers(0, 1 << 50),
    kv_disk_bytes=st.integers(0, 1 << 50),
    kv_disk_path=st.just("/var/cache/kv"),
    memory_bytes=st.integers(0, 1 << 50),
    kv_cache_precision=st.sampled_from(["u8", "f16", "f32"]),
    inference_precision=st.sampled_from(["auto", "uniform", "f32"]),
    prefix_cache=st.booleans(),
    speculation=st.sampled_from(["off", "prompt_lookup"]),
    draft_artifact=st.just(""),
    threads=st.integers(0, 256),
    tokenizer_instances=st.integers(1, 8),
    detokenizer_instances=st.integers(1, 8),
    metrics_seconds=st.floats(0, 1e9),
    delivery_share=st.floats(0, 1, exclude_min=True),
    scorer_batch_tokens=st.integers(1, 1 << 20),
    scorer_delay_ms=st.floats(0, 1e9),
    scorer_cache_bytes=st.integers(0, 1 << 50),
    scorer_device=st.sampled_from(get_args(ScorerDevice)),
    engine_options=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
)


@given(_configs)
def test_an_entry_written_and_read_is_the_same(serving: ServingConfig) -> None:
    entry = ModelEntry("generator", "../engine", serving)
    assert read_record(ModelEntry, json.loads(entry.to_json()), "entry") == entry


def test_the_round_trip_covers_every_knob() -> None:
    assert {f.name for f in fields(ServingConfig)} == {
        "max_running",
        "max_queue_size",
        "max_num_tokens",
        "max_itl_ms",
        "ageing_seconds",
        "default_max_tokens",
        "max_sequence_len",
        "default_timeout_seconds",
        "exclude_input_in_output",
        "kv_cache_bytes",
        "memory_bytes",
        "kv_cache_precision",
        "inference_precision",
        "prefix_cache",
        "kv_host_bytes",
        "kv_disk_bytes",
        "kv_disk_path",
        "speculation",
        "draft_artifact",
        "threads",
        "tokenizer_instances",
        "detokenizer_instances",
        "metrics_seconds",
        "delivery_share",
        "scorer_batch_tokens",
        "scorer_delay_ms",
        "scorer_cache_bytes",
        "scorer_device",
        "engine_options",
    }


@pytest.mark.parametrize(("speculation", "artifact"), [("draft_model", ""), ("off", "x"), ("prompt_lookup", "x")])
def test_a_draft_model_wants_its_artifact_and_nothing_else_does(speculation: Speculation, artifact: str) -> None:
    with pytest.raises(ValueError, match="draft_artifact"):
        ServingConfig(speculation=speculation, draft_artifact=artifact)
    assert ServingConfig(speculation="draft_model", draft_artifact="../small").draft_artifact == "../small"
