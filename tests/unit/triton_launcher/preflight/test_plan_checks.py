"""A scorer's TensorRT plan against what is here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fake_gpus import GIB
from python_llm.artifact import SCHEMA, FileRecord, Limits, Manifest, ModelFacts, Source
from python_llm.gpus import Gpu
from triton_launcher.preflight.facts import RuntimeFacts
from triton_launcher.preflight.plan_checks import PLAN, plan_problems

H100 = Gpu("NVIDIA H100", "9.0", 80 * GIB, 79 * GIB)
HERE = RuntimeFacts({"tensorrt": "10.14.1.48"}, (H100,), 500)


def _manifest(**changes: Any) -> Manifest:
    manifest = Manifest(
        schema=SCHEMA,
        name="model",
        kind=PLAN,
        content_key="key",
        source=Source("owner/model", "", {}, ""),
        model=ModelFacts("LlamaForCausalLM", 32, 4096, 32, 8, 128, 512, 8192, (2,)),
        quantisation={"weights": "fp16"},
        files={"model.plan": FileRecord(9 * GIB, "0"), "model.onnx.data": FileRecord(90 * GIB, "0")},
        builder={"tensorrt": "10.14.1.48", "compute_capability": "9.0"},
        tp=1,
        pp=1,
        world_size=1,
        limits=Limits(16, 2048, 2048, 2048),
        features={},
    )
    return replace(manifest, **changes)


def test_a_plan_that_fits_has_no_problem() -> None:
    assert plan_problems(_manifest(), HERE) == []


def test_another_kind_is_not_looked_at() -> None:
    assert plan_problems(_manifest(kind="onnx"), RuntimeFacts({}, (), 500)) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(HERE, versions={}), "tensorrt: not installed here; start the launcher in the GPU container"),
        (replace(HERE, versions={"tensorrt": "10.9"}), "the plan was built by 10.14.1.48, here is 10.9;"),
        (replace(HERE, gpus=()), "gpus: zero are visible, one is needed;"),
        (replace(HERE, gpus=(replace(H100, capability="8.9"),)), "the plan was built for 9.0, here is 8.9"),
        (replace(HERE, gpus=(replace(H100, free=GIB),)), "1.1 GB free, the plan alone has 9.7; end what else uses it"),
    ],
)
def test_each_misfit_is_one_problem_with_its_remedy(facts: RuntimeFacts, said: str) -> None:
    (problem,) = plan_problems(_manifest(), facts)
    assert said in problem


def test_all_problems_come_at_once() -> None:
    facts = RuntimeFacts({"tensorrt": "10.9"}, (replace(H100, capability="8.9", free=GIB),), 500)
    found = plan_problems(_manifest(), facts)
    assert [line.partition(":")[0] for line in found] == ["tensorrt", "compute capability", "gpu 0 (NVIDIA H100)"]


def test_a_build_that_did_not_say_its_version_is_refused() -> None:
    (problem,) = plan_problems(_manifest(builder={}), HERE)
    assert "built by unknown" in problem
