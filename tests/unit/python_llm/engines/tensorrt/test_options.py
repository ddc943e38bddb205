"""engine_options and serving knobs: checked by name before anything is imported, then made into the library's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_tensorrt_llm import NEW, OLD, PINNED, make_adapter, make_tensorrt_artifact, version_in_use
from python_llm.artifact import Artifact
from python_llm.engines.tensorrt.library import Library
from python_llm.engines.tensorrt.options import Options
from python_llm.engines.tensorrt_llm import abilities
from python_llm.errors import CallerMistake
from python_llm.settings import ServingConfig

ENGINE, CHECKPOINT = "tensorrt_llm-engine", "tensorrt_llm-checkpoint"


@pytest.fixture
def artifacts(tmp_path: Path, checkpoint: Path) -> dict[str, Artifact]:
    return {
        kind: Artifact.open(make_tensorrt_artifact(tmp_path / kind, checkpoint, kind=kind, tp=2))
        for kind in (ENGINE, CHECKPOINT)
    }


def arguments(artifact: Artifact, **knobs: Any) -> dict[str, Any]:
    options = Options.read(artifact, ServingConfig(**knobs))
    return options.arguments(Library(options.backend))


@pytest.mark.parametrize(
    ("kind", "knobs", "words"),
    [
        (ENGINE, {"engine_options": {"kv_cache_confg": {}}}, ["'kv_cache_confg'", "did you mean 'kv_cache_config'"]),
        (
            ENGINE,
            {"engine_options": {"free_gpu_memory_fracton": 0.5}},
            ["did you mean 'kv_cache_config.free_gpu_memory_fraction'"],
        ),
        (
            ENGINE,
            {"engine_options": {"kv_cache_config": {"max_token": 9}}},
            ["key 'kv_cache_config'", "did you mean 'max_tokens'"],
        ),
        (ENGINE, {"engine_options": {"kv_cache_config": 3}}, ["it must be an object"]),
        (ENGINE, {"engine_options": {"enable_chunked_prefill": "yes"}}, ["'yes'", "of type bool"]),
        (
            ENGINE,
            {"engine_options": {"scheduler_config": {"capacity_scheduler_policy": "FAIR"}}},
            ["'FAIR'", "GUARANTEED_NO_EVICT"],
        ),
        (ENGINE, {"engine_options": {"model": "x"}}, ["'model'", "the artifact says it"]),
        (ENGINE, {"engine_options": {"max_batch_size": 4}}, ["'max_batch_size'", "max_running"]),
        (ENGINE, {"engine_options": {"sampler_type": "auto"}}, ["unknown key 'sampler_type'"]),
        (ENGINE, {"engine_options": {"kv_cache_config": {"dtype": "fp8"}}}, ["KV_DTYPE"]),
        (ENGINE, {"engine_options": {"guided_decoding_backend": "llguidance"}}, ["say xgrammar"]),
        (ENGINE, {"engine_options": {"guided_decoding_backend": "outlines"}}, ["xgrammar, llguidance"]),
        (ENGINE, {"engine_options": {"speculative_config": {"decoding_type": "NGram"}}}, ["Lookahead, Medusa, Eagle"]),
        (ENGINE, {"speculation": "prompt_lookup"}, ["as it was built", "speculative_config"]),
        (
            CHECKPOINT,
            {"engine_options": {"speculative_config": {"decoding_type": "Medusa"}}},
            ["'Medusa'", "Eagle, MTP, NGram, Draft_Target"],
        ),
        (
            CHECKPOINT,
            {"speculation": "prompt_lookup", "engine_options": {"speculative_config": {"decoding_type": "NGram"}}},
            ["keep one"],
        ),
        (
            CHECKPOINT,
            {"engine_options": {"lora_config": {"lora_dir": ["a/french", "b/french"]}}},
            ["2 adapters with 1 names", "rename one"],
        ),
        (CHECKPOINT, {"engine_options": {"lora_config": {"max_lora_rank": 8}}}, ["names no adapter"]),
        (CHECKPOINT, {"engine_options": {"lora_config": {"lora_dir": ["a"]}}}, ["is no folder"]),
        (CHECKPOINT, {"kv_cache_precision": "f16"}, ["kv_cache_precision 'f16'", "engine_options"]),
        (CHECKPOINT, {"max_itl_ms": 10.0}, ["max_itl_ms 10.0"]),
    ],
)
def test_what_does_not_fit_is_named(
    artifacts: dict[str, Artifact], kind: str, knobs: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(CallerMistake) as caught:
        Options.read(artifacts[kind], ServingConfig(**knobs))
    for word in words:
        assert word in str(caught.value)


def test_arguments_of_an_engine(version: str, artifacts: dict[str, Artifact]) -> None:
    made = arguments(
        artifacts[ENGINE],
        max_running=250,
        kv_cache_bytes=8 << 30,
        kv_host_bytes=1 << 30,
        prefix_cache=False,
        engine_options={
            "kv_cache_config": {"sink_token_length": 4},
            "scheduler_config": {
                "capacity_scheduler_policy": "MAX_UTILIZATION",
                "context_chunking_policy": "EQUAL_PROGRESS",
            },
            "speculative_config": {
                "decoding_type": "Lookahead",
                "max_window_size": 4,
                "max_ngram_size": 3,
                "max_verification_set_size": 4,
            },
        },
    )
    assert (made["tensor_parallel_size"], made["max_batch_size"], made["max_seq_len"]) == (2, 16, 256)
    assert made["max_num_tokens"] == 4096  # the build's: the knob is at its default
    assert made["gather_generation_logits"]
    assert made["enable_chunked_prefill"]
    cache = made["kv_cache_config"]
    assert (cache.max_gpu_total_bytes, cache.host_cache_size) == (8 << 30, 1 << 30)
    assert (cache.enable_block_reuse, cache.sink_token_length, cache.dtype) == (False, 4, "auto")
    assert made["scheduler_config"].capacity_scheduler_policy.value == "MAX_UTILIZATION"
    assert type(made["speculative_config"]).__name__ == "LookaheadDecodingConfig"


def test_arguments_of_a_checkpoint(version: str, artifacts: dict[str, Artifact]) -> None:
    made = arguments(
        artifacts[CHECKPOINT],
        max_num_tokens=2048,
        speculation="prompt_lookup",
        engine_options={"kv_cache_config": {"dtype": "fp8"}, "cuda_graph_config": {"enable_padding": True}},
    )
    assert (made["max_num_tokens"], made["enable_iter_perf_stats"], made["skip_tokenizer_init"]) == (2048, True, True)
    assert made["kv_cache_config"].dtype == "fp8"
    assert made["kv_cache_config"].max_gpu_total_bytes == 0  # the library's share of what is free
    assert made["cuda_graph_config"].enable_padding
    assert type(made["speculative_config"]).__name__ == "NGramDecodingConfig"
    assert made["speculative_config"].max_draft_len > 0


_MODES = {
    ENGINE: {"Lookahead": "Lookahead", "Medusa": "Medusa", "Eagle": "Eagle"},
    CHECKPOINT: {"Eagle": "Eagle", "MTP": "MTP", "NGram": "NGram", "Draft_Target": "DraftTarget", "AUTO": "Auto"},
}


@pytest.mark.parametrize("kind", _MODES)
@pytest.mark.parametrize("mode", sorted({mode for modes in _MODES.values() for mode in modes}))
def test_each_way_to_speculate_is_its_kinds_or_refused_by_name(
    version: str, artifacts: dict[str, Artifact], kind: str, mode: str
) -> None:
    sizes = {"max_window_size": 4, "max_ngram_size": 3, "max_verification_set_size": 4} if mode == "Lookahead" else {}
    given = {"speculative_config": {"decoding_type": mode, **sizes}}
    if mode in _MODES[kind]:
        made = arguments(artifacts[kind], engine_options=given)["speculative_config"]
        assert type(made).__name__ == f"{_MODES[kind][mode]}DecodingConfig"
    else:
        with pytest.raises(CallerMistake, match=f"'{mode}'; here it must be one of"):
            arguments(artifacts[kind], engine_options=given)


def test_a_draft_model_is_an_artifact_and_goes_by_each_versions_name(
    version: str, artifacts: dict[str, Artifact], tmp_path: Path, checkpoint: Path
) -> None:
    draft = make_tensorrt_artifact(tmp_path / "draft", checkpoint)
    made = arguments(artifacts[CHECKPOINT], speculation="draft_model", draft_artifact="../draft")
    name = "speculative_model" if version == NEW else "speculative_model_dir"
    assert getattr(made["speculative_config"], name) == str(draft)


def test_a_draft_model_of_another_kind_is_refused(artifacts: dict[str, Artifact]) -> None:
    with pytest.raises(CallerMistake, match="must be tensorrt_llm-checkpoint"):
        Options.read(artifacts[CHECKPOINT], ServingConfig(speculation="draft_model", draft_artifact=f"../{ENGINE}"))


def test_an_option_of_another_version_is_refused_with_the_version(
    artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    newer = {"engine_options": {"kv_cache_config": {"max_util_for_resume": 0.5}}}
    with version_in_use(NEW, tmp_path / "new"):
        assert arguments(artifacts[CHECKPOINT], **newer)["kv_cache_config"].max_util_for_resume == 0.5
    for version in (OLD, PINNED):
        with (
            version_in_use(version, tmp_path / version),
            pytest.raises(CallerMistake, match=rf"max_util_for_resume.*{version} does not have it"),
        ):
            arguments(artifacts[CHECKPOINT], **newer)


def test_an_engine_without_lora_takes_no_adapters(tmp_path: Path, checkpoint: Path) -> None:
    make_adapter(tmp_path / "french")
    folder = make_tensorrt_artifact(tmp_path / "a", checkpoint, kind=ENGINE, build={"plugin_config": {}})
    with pytest.raises(CallerMistake, match="built without LoRA; build it with --max-lora-rank"):
        Options.read(Artifact.open(folder), ServingConfig(engine_options={"lora_config": {"lora_dir": ["../french"]}}))


def test_an_engine_without_paged_context_takes_prompts_of_one_step(tmp_path: Path, checkpoint: Path) -> None:
    build = {"plugin_config": {"use_paged_context_fmha": False}, "max_num_tokens": 100}
    artifact = Artifact.open(make_tensorrt_artifact(tmp_path / "a", checkpoint, kind=ENGINE, build=build))
    options = Options.read(artifact, ServingConfig())
    assert not options.chunked_prefill
    assert options.max_input_len == 100
    wanted = Options.read(artifact, ServingConfig(engine_options={"enable_chunked_prefill": True}))
    assert wanted.max_input_len == 255


def test_another_sampler_has_fewer_abilities(pinned: str, artifacts: dict[str, Artifact]) -> None:
    for options in (
        {"sampler_type": "TorchSampler"},
        {"speculative_config": {"decoding_type": "MTP"}},
    ):
        read = Options.read(artifacts[CHECKPOINT], ServingConfig(engine_options=options))
        assert abilities(read, Library(read.backend)).sampling == {"temperature", "top_k", "top_p", "seed"}
    read = Options.read(artifacts[CHECKPOINT], ServingConfig())
    assert "no_repeat_ngram_size" in abilities(read, Library(read.backend)).sampling


def test_guides_need_their_backend(pinned: str, artifacts: dict[str, Artifact]) -> None:
    for artifact in artifacts.values():
        options = Options.read(artifact, ServingConfig(engine_options={"guided_decoding_backend": "xgrammar"}))
        library = Library(options.backend)
        assert "json_schema" in abilities(options, library).guides
        assert not options.arguments(library)["skip_tokenizer_init"]


def test_options_are_for_engines_that_have_a_library(tmp_path: Path, checkpoint: Path) -> None:
    from echo_artifact import make_echo_artifact
    from python_llm import engine as engines

    folder = make_echo_artifact(tmp_path / "echo", checkpoint)
    with pytest.raises(CallerMistake, match="engine_options dtype: an engine of kind echo has none"):
        engines.load(folder, ServingConfig(engine_options={"dtype": "auto"}))
