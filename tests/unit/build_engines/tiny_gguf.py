"""A tiny GGUF file written from a tiny Hugging Face checkpoint, as llama.cpp's converter would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

__all__ = ["write_gguf"]

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(folder: Path, target: Path, **changes: Any) -> Path:
    """``changes`` replace metadata, key by key; None leaves a key out."""
    from gguf import GGUFWriter

    config = json.loads((folder / "config.json").read_text())
    metadata = {**_metadata(folder, config), **changes}
    writer = GGUFWriter(target, str(metadata.pop("general.architecture", "llama")))
    for key, value in metadata.items():
        _add(writer, key, value)
    for name, weight in load_file(folder / "model.safetensors").items():
        writer.add_tensor(_renamed(name), _permuted(name, weight, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _metadata(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    special = {entry["id"] for entry in tokenizer["added_tokens"]}
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    return {
        "general.license": "apache-2.0",
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "llama.rope.freq_base": float(config["rope_theta"]),
        "llama.vocab_size": config["vocab_size"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if index in special else 1 for index in range(len(tokens))],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": settings["chat_template"],
    }


def _add(writer: Any, key: str, value: Any) -> None:
    if value is None:
        return
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    (writer.add_array if isinstance(value, list) else kinds[type(value)])(key, value)


def _renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _TOP:
        return f"{_TOP[stem]}.weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[rest]}.weight"


def _permuted(name: str, weight: npt.NDArray[np.float32], config: dict[str, Any]) -> npt.NDArray[np.float32]:
    """llama.cpp keeps the two halves of each rotary head interleaved."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    part = name.split(".")[-2]
    if part not in heads:
        return weight
    count = heads[part]
    split = weight.reshape(count, 2, weight.shape[0] // count // 2, *weight.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(weight.shape))
