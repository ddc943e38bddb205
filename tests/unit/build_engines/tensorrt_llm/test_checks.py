"""What bad input gets before a GPU is touched: each one clear failed check with its remedy, all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build_engines.builders._tensorrt_llm.checks import FAILED, UNKNOWN, check_target, require_sound
from build_engines.builders._tensorrt_llm.target import Target
from build_engines.errors import SpecError
from build_engines.spec import EngineSpec

Make = Callable[..., Target]


def _failed(target: Target) -> str:
    return "\n".join(f"{check.subject}: {check.text}" for check in check_target(target) if check.state == FAILED)


@pytest.mark.parametrize(
    ("fixture", "knobs", "parts"),
    [
        ("llama-3.1-8b", {"tp": 3}, ["tp 3", "32 heads", "choose"]),
        ("qwen2.5-7b", {"tp": 8}, ["tp 8", "28 heads", "choose"]),
        ("llama-3.1-8b", {"pp": 64, "gpus_per_node": 64}, ["pp 64", "32 layers", "lower pp"]),
        ("llama-3.1-8b", {"gpu": "A100-80"}, ["fp8 needs compute capability 8.9", "8.0", "choose"]),
        ("llama-3.1-8b", {"gpu": "H100", "quant": "nvfp4"}, ["nvfp4 needs compute capability 10.0"]),
        (
            "qwen2.5-7b",
            {"quant": "int4_awq", "tp": 4, "group_size": 256},
            ["group size 256", "896 inputs of 'o' on one of 4 ranks", "--group-size"],
        ),
        ("llama-3.1-8b", {"max_seq_len": 200_000}, ["max_seq_len 200000", "context is 131072", "lower it"]),
        ("llama-3.1-8b", {"max_input_len": 9000}, ["max_input_len 9000", "max_seq_len 8192"]),
        ("llama-3.1-8b", {"max_batch_size": 128, "max_num_tokens": 64}, ["max_num_tokens 64", "128 sequences"]),
        ("llama-3.1-8b", {"calib": "no/such.txt"}, ["calib 'no/such.txt'", "no such file"]),
        ("gpt-neox-20b", {"quant": "int4_awq"}, ["gpt_neox", "none, int8_wo, int4_wo"]),
        ("gpt-neox-20b", {"quant": "int8_wo", "kv_dtype": "int8"}, ["kv cache", "kv_dtype auto"]),
        ("llama-3.1-70b", {"gpu": "L4"}, ["weights on a GPU of 24 GB", "raise tp or pp"]),
        ("llama-3.1-8b", {"tp": 4, "gpus_per_node": 2}, ["must not cross nodes"]),
        ("llama-3.1-8b", {"plugins": ("gem_plugin=auto",)}, ["gem_plugin", "did you mean 'gemm_plugin'"]),
        ("llama-3.1-8b", {"speculative": "medusa", "max_draft_len": 5}, ["medusa", "lookahead_decoding"]),
        ("llama-3.1-8b", {"speculative": "eagle", "max_draft_len": 5}, ["eagle", "serve a checkpoint with Eagle"]),
        (
            "llama-3.1-8b",
            {"speculative": "draft_tokens_external", "max_draft_len": 5},
            ["no draft tokens", "checkpoint with speculation draft_model"],
        ),
    ],
)
def test_one_mistake_is_one_clear_line(target: Make, fixture: str, knobs: dict[str, Any], parts: list[str]) -> None:
    found = _failed(target(fixture, **knobs))
    assert all(part in found for part in parts), found
    assert len(found.splitlines()) == 1, found


def test_every_mistake_is_named_at_once(target: Make) -> None:
    with pytest.raises(SpecError) as caught:
        require_sound(target(tp=3, gpu="A100-80", max_seq_len=200_000, plugins=("typo=1",)))
    assert all(part in str(caught.value) for part in ("tp 3", "fp8 needs", "200000", "typo"))


def test_a_calibration_file_without_text(target: Make, tmp_path: Path) -> None:
    for content in (b"", b" \n\t\n", b"\xff\xfe\x00"):
        (tmp_path / "calib").write_bytes(content)
        found = _failed(target(calib=str(tmp_path / "calib")))
        assert "calib" in found
        assert ("there is no text in it" in found) or ("unreadable as UTF-8" in found)


def test_zero_gpus_are_said_and_what_hangs_on_them_is_not_checked(target: Make) -> None:
    checks = {check.subject: check for check in check_target(target(gpu=""))}
    assert checks["gpu"].state == checks["memory"].state == checks["format"].state == UNKNOWN
    assert "zero GPUs are visible" in checks["gpu"].text
    assert "--gpu" in checks["gpu"].text


def test_a_visible_gpu_is_what_is_checked(target: Make) -> None:
    seen = target(visible=2)
    assert (seen.capability, seen.workers, seen.route) == ((9, 0), 1, "llm_api")
    assert target(visible=1, tp=2).route == "commands"
    assert target(visible=2, tp=2).route == "llm_api"
    assert not _failed(seen)


@pytest.mark.parametrize(
    ("knobs", "part"),
    [
        ({"tp": 0}, "tp 0"),
        ({"kv_dtype": "fp4"}, "kv_dtype 'fp4'"),
        ({"form": "plan"}, "form 'plan'"),
        ({"log_probs": "yes"}, "log_probs 'yes'"),
        ({"speculative": "medusa"}, "max_draft_len 0"),
        ({"max_draft_len": 3}, "max_draft_len 3"),
        ({"lora_modules": ("attn_q",)}, "lora_modules 'attn_q'"),
        ({"plugins": ("gemm_plugin",)}, "plugins 'gemm_plugin'"),
        ({"max_lora_rank": -1}, "max_lora_rank -1"),
    ],
)
def test_a_knob_that_nobody_could_use_is_refused(knobs: dict[str, Any], part: str) -> None:
    with pytest.raises(SpecError, match=part):
        EngineSpec(model="model", **knobs)
