"""Every name that the TensorRT-LLM engine gives the library is a fact of both versions around the pinned one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from fake_tensorrt_llm import make_tensorrt_artifact
from python_llm.artifact import Artifact
from python_llm.engine import BeamParams, GenerateRequest, Guide, GuideKind, SamplingParams
from python_llm.engines.tensorrt.api import enum_values, fields_of, old_names
from python_llm.engines.tensorrt.options import Options
from python_llm.engines.tensorrt.sampling import sampling_params
from python_llm.engines.tensorrt.statistics import Statistics
from python_llm.settings import ServingConfig

ROOT = Path(__file__).parents[2]
RUNTIME = json.loads((ROOT / "backends/python_llm/engines/tensorrt/api.json").read_text("utf-8"))
BUILD = json.loads((ROOT / "build_engines/trtllm_api.json").read_text("utf-8"))
SAMPLED = SamplingParams(1.0, 5, 0.9, 0.1, 7, 1.1, 0.1, 0.1, 3, ((1, 2.0),), ((4,), (5, 6)))


class Facts:
    """Stands where the library does, and takes only what both versions have; ``made`` are the classes it made."""

    def __init__(self) -> None:
        self.made: set[str] = set()

    def make(self, name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        self.check_names(name, values)
        self.made.add(name)
        return values

    def check_names(self, name: str, values: Mapping[str, Any]) -> None:
        renamed = old_names(name)
        for key in values:
            row = fields_of(name)[key]
            assert row.get("only") != "new" or key in renamed, f"{name}.{key}: the newer version alone has it"

    def ban(self, params: object, words: Sequence[Sequence[int]]) -> None:
        assert words
        assert fields_of("SamplingParams")["_bad_word_ids"]["init"] is False

    def symbol(self, name: str) -> Any:
        assert enum_values(name) is not None
        return str


def request(**more: Any) -> GenerateRequest:
    return GenerateRequest("x", (1, 2), 8, **more)


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request(sampling=SAMPLED, min_tokens=2, end_ids=frozenset({3, 4}), stop_ids=frozenset({5}), resume_ids=(6,)),
        request(log_probs=True, top_log_probs=3, prompt_log_probs=True),
        request(beam=BeamParams(4, 0.5, True), sequence_count=2),
        *(request(guide=Guide(kind, "{}")) for kind in get_args(GuideKind)),
    ],
)
def test_every_sampling_parameter_is_a_fact(asked: GenerateRequest) -> None:
    facts = Facts()
    sampling_params(asked, 0, facts, 100)  # type: ignore[arg-type]
    assert "SamplingParams" in facts.made


@pytest.mark.parametrize("kind", ["tensorrt_llm-engine", "tensorrt_llm-checkpoint"])
def test_every_argument_of_the_llm_is_a_fact(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 10, "max_position_embeddings": 64}', "utf-8")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1]}', "utf-8")
    artifact = Artifact.open(make_tensorrt_artifact(tmp_path / "artifact", tmp_path, kind=kind))
    (tmp_path / "adapter").mkdir()
    options = {
        "scheduler_config": {"capacity_scheduler_policy": "MAX_UTILIZATION"},
        "guided_decoding_backend": "xgrammar",
        "lora_config": {"lora_dir": ["../adapter"]},
    }
    lookup = kind == "tensorrt_llm-checkpoint"
    serving = ServingConfig(
        kv_cache_bytes=1 << 20,
        kv_host_bytes=1,
        speculation="prompt_lookup" if lookup else "off",
        engine_options=options,
    )
    facts = Facts()
    Options.read(artifact, serving).arguments(facts)  # type: ignore[arg-type]
    assert {"KvCacheConfig", "SchedulerConfig", "LoraConfig"} <= facts.made
    assert ("NGramDecodingConfig" in facts.made) == lookup


def test_the_statistics_read_are_facts() -> None:
    names = set(RUNTIME["classes"]["tensorrt_llm.bindings.executor.KvCacheStats"]["fields"])
    values = {name: position + 1 for position, name in enumerate(sorted(names))}
    statistics = Statistics()
    statistics.take({"kv_cache_stats": values, "inflight_batching_stats": {"num_paused_requests": 2}})
    figures = statistics.figures()
    assert all(figures.values())
    assert figures["blocks_total"] == values["max_num_blocks"]
    assert "num_paused_requests" in RUNTIME["classes"]["tensorrt_llm.bindings.executor.InflightBatchingStats"]["fields"]


def test_builder_and_engine_know_the_same_version_and_names() -> None:
    assert f'"tensorrt-llm=={RUNTIME["version"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert RUNTIME["version"] == BUILD["version"]
    for name in set(RUNTIME["classes"]) & set(BUILD["symbols"]):
        fields = RUNTIME["classes"][name]["fields"]
        for field, has in BUILD["symbols"][name].get("names", {}).items():
            if field in fields and isinstance(fields, dict):
                assert (fields[field].get("only") == "new") == (has == "new"), f"{name}.{field}"
