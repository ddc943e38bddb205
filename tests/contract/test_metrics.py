"""The table of metrics against the rules of Prometheus, NVIDIA's names, the engine's stats and the errors there are."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from docs.generate import error_reasons
from python_llm.engine import EngineStats
from python_llm.error_reasons import OF_AN_INPUT, REASONS
from python_llm.metrics import FAMILIES, LABELS, Family

_UNBOUNDED = {"request_id", "tenant", "user", "id", "prompt"}


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.name)
def test_rows_are_well_formed(row: Family) -> None:
    assert re.fullmatch(r"(triton_llm|nv_trt_llm)_[a-z0-9_]+", row.name)
    assert row.name.endswith("_total") == (row.kind == "counter")
    assert bool(row.bounds) == (row.kind == "histogram")
    assert list(row.bounds) == sorted(set(row.bounds))
    assert bool(row.sources) != bool(row.each)
    assert all(len(values) == len(row.labels) for values in row.sources)
    assert not {*row.labels, *LABELS} & _UNBOUNDED
    assert row.help.endswith(".") or row.name.startswith("nv_")
    for unit in "seconds", "ratio":
        assert (row.unit == unit) == row.name.endswith(f"_{unit}")


def test_names_are_told_once() -> None:
    assert len({row.name for row in FAMILIES}) == len(FAMILIES)


def test_every_field_of_the_engines_stats_is_published() -> None:
    sources = {source for row in FAMILIES for source in row.sources.values()}
    assert {field.name for field in fields(EngineStats)} <= sources, "a new field of EngineStats wants a row"


def test_nvidias_names_are_nvidias() -> None:
    """As the TensorRT-LLM backend reports them, and the Gateway API Inference Extension reads them."""
    told = {row.name: (row.labels, {value for (value,) in row.sources}) for row in FAMILIES if row.name[:3] == "nv_"}
    assert told == {
        "nv_trt_llm_request_metrics": (("request_type",), {"waiting", "context", "scheduled", "max", "active"}),
        "nv_trt_llm_kv_cache_block_metrics": (
            ("kv_cache_block_type",),
            {"fraction", "tokens_per", "used", "free", "max"},
        ),
    }


def test_the_table_of_reasons_has_all_that_the_source_raises() -> None:
    raised = {reason for reason, _, _ in error_reasons()}
    patterns = {pattern.replace("{input}", "<input>") for pattern in OF_AN_INPUT}
    assert raised - patterns <= REASONS, "python_llm/error_reasons.py lists them"
