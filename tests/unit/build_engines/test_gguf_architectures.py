"""Each architecture imported from GGUF: the checkpoint it was written from, and llama.cpp, compute the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from build_engines.errors import CheckpointError
from build_engines.gguf import ARCHITECTURES, import_gguf
from llama_cpp import llama_logprobs
from tests.unit.build_engines.tiny_gguf import add_value, permuted, tokenizer_metadata
from tiny_checkpoint import make_tiny_checkpoint

THETA, LLAMA3_FACTOR = 500000.0, 8.0
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_GEMMA = {"architecture": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24}

# What a checkpoint is made with, and what its file says beside what all say.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "llama": ({}, {"rope.dimension_count": 16}),
    "llama, linear": (
        {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "llama, yarn": (
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 512},
    ),
    "llama, llama3": (
        {
            "head_dim": 32,
            "rope_theta": THETA,
            "rope_scaling": {"rope_type": "llama3", "factor": LLAMA3_FACTOR, **_LLAMA3},
        },
        {"rope.freq_base": THETA, "rope.dimension_count": 32, "attention.key_length": 32, "attention.value_length": 32},
    ),
    "qwen2": ({"architecture": "qwen2"}, {}),
    "qwen3": (
        {"architecture": "qwen3", "head_dim": 32},
        {"attention.key_length": 32, "attention.value_length": 32},
    ),
    "phi3": (
        {"architecture": "phi3", "sliding_window": 512},
        {"rope.dimension_count": 16, "attention.sliding_window": 512},
    ),
    "gemma3": (
        {**_GEMMA, "tie_word_embeddings": True},
        {
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.sliding_window": 24,
            "rope.freq_base": 1e6,
        },
    ),
    "gpt2": (
        {"architecture": "gpt2", "tie_word_embeddings": True},
        {"attention.head_count_kv": 4, "feed_forward_length": 256},
    ),
    "starcoder2": ({"architecture": "starcoder2"}, {}),
    "stablelm": ({"architecture": "stablelm"}, {"rope.dimension_count": 4}),
    "nemotron": ({"architecture": "nemotron"}, {"rope.dimension_count": 8}),
}


def _write(folder: Path, target: Path, architecture: str, says: dict[str, Any], **extra: Any) -> Path:
    from gguf import MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map

    kind = next(key for key, name in MODEL_ARCH_NAMES.items() if name == architecture)
    names = get_tensor_name_map(kind, 1)
    config = json.loads((folder / "config.json").read_text())
    writer = GGUFWriter(target, architecture)
    numbers = {
        "block_count": 1,
        "context_length": 2048,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": float(config.get("rms_norm_eps", 1e-5)),
        "attention.layer_norm_epsilon": _epsilon(config),
        **says,
    }
    for key, value in numbers.items():
        add_value(writer, f"{architecture}.{key}", value)
    tokenizer_metadata(writer, folder)
    for name, weight in load_file(folder / "model.safetensors").items():
        stem, _, ending = name.rpartition(".")
        writer.add_tensor(f"{names.get_name(stem)}.{ending}", _as_llama_cpp(architecture, name, weight, config))
    for name, weight in extra.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _epsilon(config: dict[str, Any]) -> float:
    names = ("layer_norm_epsilon", "norm_epsilon", "layer_norm_eps", "norm_eps")
    return float(next((config[name] for name in names if name in config), 1e-5))


def _as_llama_cpp(architecture: str, name: str, weight: Any, config: dict[str, Any]) -> Any:
    """The changes llama.cpp's converter makes to some tensors."""
    if architecture == "llama":
        return permuted(name, weight, config)
    if architecture == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return np.ascontiguousarray(weight.T)
    if architecture in ("gemma3", "nemotron") and name.endswith("norm.weight"):
        return weight + 1
    return weight


def _divisors() -> Any:
    """Llama 3's scaling as llama.cpp writes it: by wavelength, as its converter computes it."""
    waves = 2 * np.pi * THETA ** (np.arange(0, 32, 2) / 32)
    smooth = (8192 / waves - 1.0) / 3.0
    middle = 1 / ((1 - smooth) / LLAMA3_FACTOR + smooth)
    return np.where(waves < 8192 / 4, 1.0, np.where(waves > 8192, LLAMA3_FACTOR, middle)).astype(np.float32)


def _logits(folder: Path, prompt: list[int]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        return model(torch.tensor([prompt])).logits[0]


def test_every_architecture_is_here() -> None:
    assert {case.partition(",")[0] for case in CASES} == set(ARCHITECTURES)


@pytest.mark.parametrize("case", CASES)
def test_the_import_computes_what_the_checkpoint_and_llama_cpp_compute(tmp_path: Path, case: str) -> None:
    options, says = CASES[case]
    folder = make_tiny_checkpoint(tmp_path / "checkpoint", layers=1, **options)
    extra = {"rope_freqs.weight": _divisors()} if case == "llama, llama3" else {}
    file = _write(folder, tmp_path / "tiny.gguf", case.partition(",")[0], says, **extra)
    import_gguf((file,), tmp_path / "imported")
    prompt = list(range(5, 65))
    expected, found = _logits(folder, prompt), _logits(tmp_path / "imported", prompt)
    assert float((expected - found).abs().max()) <= 1e-4 * float(expected.abs().max())
    own = found[-1].log_softmax(-1)
    theirs = llama_logprobs(file, prompt, 100)
    assert len(theirs) == 100
    # Its cache is fp16, so a few thousandths of the logits' range of ten and more.
    assert max(abs(float(own[token]) - value) for token, value in theirs.items()) <= 0.05


@pytest.mark.parametrize(
    ("says", "extra", "part"),
    [
        ({}, {"blk.0.attn_q.bias": np.zeros(64, np.float32)}, "blk.0.attn_q.bias"),
        ({}, {"rope_freqs.weight": np.linspace(1, 3, 8, dtype=np.float32)}, "not Llama 3's"),
        ({}, {"rope_factors_long.weight": np.ones(8, np.float32)}, "rope_factors_long.weight"),
    ],
)
def test_what_would_be_left_out_in_silence_is_refused(
    tiny: Path, tmp_path: Path, says: dict[str, Any], extra: dict[str, Any], part: str
) -> None:
    folder = make_tiny_checkpoint(tmp_path / "checkpoint", layers=1)
    file = _write(folder, tmp_path / "tiny.gguf", "llama", says, **extra)
    with pytest.raises(CheckpointError) as caught:
        import_gguf((file,), tmp_path / "imported")
    assert all(word in str(caught.value) for word in (str(file), part, "Hugging Face checkpoint"))
