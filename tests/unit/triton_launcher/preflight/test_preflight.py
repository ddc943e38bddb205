"""An artifact against what is here and what is asked: all problems at once, and each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fake_gpus import GIB
from python_llm.artifact import SCHEMA, FileRecord, Limits, Manifest, ModelFacts, Source
from python_llm.gpus import Gpu
from python_llm.settings import ServingConfig
from triton_launcher.preflight.checks import ENGINE, problems
from triton_launcher.preflight.facts import RuntimeFacts
from triton_launcher.preflight.wishes import Wishes

CHECKPOINT = "tensorrt_llm-checkpoint"
BUILT: Mapping[str, Any] = {
    "max_lora_rank": 16,
    "output_log_probs": True,
    "prompt_log_probs": False,
    "chunked_context": True,
    "kv_reuse": True,
    "max_beam_width": 1,
    "gpus_per_node": 8,
    "memory": {"weights": 9 * GIB, "activations": GIB, "reserve": GIB, "kv_token": 131_072},
}
H100 = Gpu("NVIDIA H100", "9.0", 80 * GIB, 79 * GIB)
HERE = RuntimeFacts({"tensorrt_llm": "1.2.1", "tensorrt": "10.14.1.48", "xgrammar": "0.1"}, (H100, H100), 500)


def _manifest(kind: str = ENGINE, tp: int = 2, pp: int = 1, **changes: Any) -> Manifest:
    files = {f"rank{rank}.engine": FileRecord(9 * GIB, "0") for rank in range(tp * pp)}
    if kind == CHECKPOINT:
        files = {"model.safetensors": FileRecord(18 * GIB, "0")}
    manifest = Manifest(
        schema=SCHEMA,
        name="model",
        kind=kind,
        content_key="key",
        source=Source("owner/model", "", {}, ""),
        model=ModelFacts("LlamaForCausalLM", 32, 4096, 32, 8, 128, 512, 8192, (2,)),
        quantisation={"weights": "fp8", "format": "FP8", "kv_cache": "auto"},
        files=files,
        builder={"tensorrt_llm": "1.2.1", "tensorrt": "10.14.1.48", "compute_capability": "9.0"},
        tp=tp,
        pp=pp,
        world_size=tp * pp,
        limits=Limits(64, 2048, 2048, 8192),
        features=BUILT,
    )
    return replace(manifest, **changes)


def _found(manifest: Manifest, facts: RuntimeFacts = HERE, **wishes: Any) -> list[str]:
    return problems(manifest, facts, Wishes(**wishes))


@pytest.mark.parametrize("kind", [ENGINE, CHECKPOINT])
def test_what_fits_has_no_problem(kind: str) -> None:
    assert problems(_manifest(kind), HERE, Wishes.of(ServingConfig())) == []


def test_other_kinds_are_not_its_business() -> None:
    assert _found(_manifest("openvino-ir"), RuntimeFacts()) == []


_ENGINE_PROBLEMS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {"versions": {}}, ["tensorrt_llm: not installed", "GPU container"]),
    ({}, {"versions": {"tensorrt_llm": "1.3.0", "tensorrt": "10.14.1.48"}}, ["built by 1.2.1, here is 1.3.0", "again"]),
    (
        {},
        {"versions": {"tensorrt_llm": "1.2.1", "tensorrt": "10.13"}},
        ["tensorrt: the engine was built by 10.14.1.48"],
    ),
    ({}, {"gpus": ()}, ["gpus: zero are visible, 2 are needed", "--gpus all"]),
    ({}, {"gpus": (H100,)}, ["1 are visible, world size 2 needs 2", "another TP"]),
    ({}, {"gpus": (replace(H100, capability="8.0"),) * 2}, ["built for 9.0, here is 8.0", "again"]),
    ({}, {"gpus": (H100, replace(H100, capability="8.9"))}, ["8.9, 9.0 are mixed"]),
    ({"world_size": 4}, {}, ["world size 4: tp 2 x pp 1 is 2", "rank2.engine, rank3.engine missing"]),
    ({"files": {"rank0.engine": FileRecord(GIB, "0")}}, {}, ["rank files: rank1.engine missing of 2", "again"]),
    (
        {"files": {f"rank{rank}.engine": FileRecord(GIB, "0") for rank in range(3)}},
        {},
        ["rank2.engine are of another build", "again"],
    ),
    ({}, {"tokenizer_ids": 600}, ["tokenizer: it has 600 ids", "512"]),
    ({}, {"gpus": (replace(H100, free=5 * GIB), H100)}, ["gpu 0", "5.4 GB free", "fewer bits"]),
]


@pytest.mark.parametrize(("built", "here", "parts"), _ENGINE_PROBLEMS)
def test_an_engine_that_cannot_run_here(built: dict[str, Any], here: dict[str, Any], parts: list[str]) -> None:
    text = "\n".join(_found(_manifest(**built), replace(HERE, **here)))
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("wishes", "part"),
    [
        ({"max_running": 128}, "max_running 128: the engine was built for 64; lower it, or build with a larger MAX_"),
        ({"max_sequence_len": 4096}, "max_sequence_len 4096: the engine was built for 2048"),
        ({"max_sequence_len": 9000}, "the model's context is 8192"),
        ({"max_num_tokens": 9000}, "max_num_tokens 9000"),
        ({"max_beam_width": 4}, "max_beam_width 4: the engine was built for 1"),
        ({"prompt_log_probs": True}, "log-probs of the prompt: the engine was built without it"),
        ({"guided_backend": "llguidance"}, "an engine has xgrammar alone"),
        ({"guided_backend": "outlines"}, "it must be xgrammar or llguidance"),
        ({"max_lora_rank": 64}, "LoRA 'max_lora_rank': rank 64, at most 16 fits"),
        ({"kv_cache_bytes": 100 * GIB}, "lower kv_cache_bytes"),
    ],
)
def test_what_was_asked_and_not_built(wishes: dict[str, Any], part: str) -> None:
    found = _found(_manifest(), **wishes)
    assert any(part in problem for problem in found), found


@pytest.mark.parametrize("feature", ["kv_reuse", "chunked_context", "output_log_probs"])
def test_a_feature_the_build_lacks(feature: str) -> None:
    wish: dict[str, Any] = {feature: True}
    manifest, asked = _manifest(features={**BUILT, feature: False}), Wishes(**wish)
    assert any("the engine was built without it" in problem for problem in problems(manifest, HERE, asked))
    assert _found(manifest) == []


def test_an_adapter_over_the_built_rank() -> None:
    facts = replace(HERE, lora_ranks={"adapters/one": 8, "adapters/two": 32})
    found = _found(_manifest(), facts, lora_folders=("adapters/one", "adapters/two"), max_lora_rank=16)
    assert found == ["LoRA 'adapters/two': rank 32, at most 16 fits; build with --max-lora-rank 32."]
    checkpoint = _manifest(CHECKPOINT)
    assert _found(checkpoint, facts, lora_folders=("adapters/two",)) == []
    found = _found(checkpoint, facts, lora_folders=("adapters/two",), max_lora_rank=16)
    assert found == ["LoRA 'adapters/two': rank 32, at most 16 fits; raise lora_config.max_lora_rank to 32."]
    large = replace(HERE, lora_ranks={"adapters/three": 128})
    assert "at most 64 fits" in _found(checkpoint, large, lora_folders=("adapters/three",))[0]
    without = _manifest(features={**BUILT, "max_lora_rank": 0})
    assert "built without LoRA" in _found(without, facts, lora_folders=("adapters/one",))[0]


def test_a_guide_needs_its_library() -> None:
    facts = replace(HERE, versions={"tensorrt_llm": "1.2.1", "tensorrt": "10.14.1.48"})
    assert "xgrammar is not installed here" in _found(_manifest(), facts, guided_backend="xgrammar")[0]


def test_an_engine_speculates_as_it_was_built() -> None:
    manifest = _manifest(features={**BUILT, "speculative": "lookahead_decoding"})
    assert _found(manifest, speculative="Lookahead") == []
    assert "built with speculative 'lookahead_decoding'; leave it out" in _found(manifest, speculative="Eagle")[0]
    assert "an engine has Lookahead, Medusa, Eagle" in _found(manifest, speculative="NGram")[0]
    plain = _manifest(features={**BUILT, "speculative": "none"})
    assert "build with --speculative lookahead_decoding" in _found(plain, speculative="Lookahead")[0]
    assert _found(_manifest(CHECKPOINT), speculative="NGram") == []


def test_a_checkpoint_is_bound_by_its_gpu_and_not_by_a_version() -> None:
    newer = replace(HERE, versions={"tensorrt_llm": "1.3.0"})
    assert _found(_manifest(CHECKPOINT), newer) == []
    ampere = replace(HERE, gpus=(replace(H100, capability="8.0"),) * 2)
    assert "FP8: it needs compute capability 8.9, here is 8.0" in _found(_manifest(CHECKPOINT), ampere)[0]


def test_a_node_needs_its_share_of_the_ranks() -> None:
    two_nodes = _manifest(tp=2, pp=2, features={**BUILT, "gpus_per_node": 2})
    assert _found(two_nodes) == []
    assert "world size 4 needs 4" in _found(_manifest(tp=2, pp=2))[0]


def test_everything_is_said_at_once() -> None:
    facts = RuntimeFacts({"tensorrt_llm": "1.3.0"}, (replace(H100, capability="8.0", free=0),), 600)
    found = _found(_manifest(files={"rank7.engine": FileRecord(GIB, "0")}), facts, max_running=99)
    assert len(found) >= 6
    assert all(problem.endswith(".") for problem in found)


def test_wishes_come_from_the_entry() -> None:
    options = {
        "enable_chunked_prefill": True,
        "gather_generation_logits": True,
        "guided_decoding_backend": "xgrammar",
        "lora_config": {"lora_dir": ["a"], "max_lora_rank": 8},
        "speculative_config": {"decoding_type": "Lookahead"},
        "kv_cache_config": {"max_gpu_total_bytes": 5, "enable_block_reuse": False},
    }
    wishes = Wishes.of(ServingConfig(max_running=100, max_sequence_len=7, engine_options=options))
    assert (wishes.max_running, wishes.max_sequence_len, wishes.max_num_tokens) == (100, 7, 0)
    assert (wishes.chunked_context, wishes.output_log_probs, wishes.kv_reuse) == (True, True, False)
    assert (wishes.guided_backend, wishes.lora_folders, wishes.max_lora_rank) == ("xgrammar", ("a",), 8)
    assert (wishes.kv_cache_bytes, wishes.speculative) == (5, "Lookahead")
    assert Wishes.of(ServingConfig()).max_running == 0
