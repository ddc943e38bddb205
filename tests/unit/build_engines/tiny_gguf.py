"""A tiny GGUF file written from a tiny Hugging Face checkpoint, as llama.cpp's converter would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

__all__ = ["add_value", "permuted", "renamed", "tokenizer_metadata", "write_gguf"]

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


def write_gguf(folder: Path, target: Path, *, kind: str = "F32", per_file: int = 0, **changes: Any) -> Path:
    """``kind`` is how matrices are quantised; ``per_file`` tensors a part, 0 for one file.

    ``changes`` replace metadata, key by key; None leaves a key out.
    """
    from gguf import GGUFWriter

    config = json.loads((folder / "config.json").read_text())
    metadata = {**_metadata(folder, config), **changes}
    architecture = str(metadata.pop("general.architecture", "llama"))
    writer = GGUFWriter(target, architecture, split_max_tensors=per_file)
    for key, value in metadata.items():
        add_value(writer, key, value)
    for name, weight in load_file(folder / "model.safetensors").items():
        _add_tensor(writer, renamed(name), permuted(name, weight, config), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _add_tensor(writer: Any, name: str, weight: npt.NDArray[np.float32], kind: str) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    if weight.ndim < 2 or kind == "F32":
        writer.add_tensor(name, weight)
        return
    element = GGMLQuantizationType[kind]
    data = random_blocks(weight, kind) if kind in _SCALES else quantize(weight, element)
    writer.add_tensor(name, data, raw_dtype=element)


# K-quants, which the gguf package reads but does not write: where a block's half-precision scales lie.
_SCALES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}


def random_blocks(weight: npt.NDArray[np.float32], kind: str) -> npt.NDArray[np.uint8]:
    """Blocks of the right size with sane scales and any weights at all."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    rows, columns = weight.shape
    blocks = np.random.default_rng(rows).integers(0, 256, (rows, columns // elements, size), np.uint8)
    for offset in _SCALES[kind]:
        blocks[..., offset : offset + 2] = np.frombuffer(np.float16(0.001).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


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


def tokenizer_metadata(writer: Any, folder: Path) -> None:
    """Say the checkpoint's tokenizer, whatever its architecture."""
    config = json.loads((folder / "config.json").read_text())
    sizes = ("num_hidden_layers", "max_position_embeddings", "hidden_size", "intermediate_size")
    heads = ("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "rope_theta")
    for key, value in _metadata(folder, {**dict.fromkeys((*sizes, *heads), 0), **config}).items():
        if key.startswith("tokenizer."):
            add_value(writer, key, value)


def add_value(writer: Any, key: str, value: Any) -> None:
    if value is None:
        return
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    (writer.add_array if isinstance(value, list) else kinds[type(value)])(key, value)


def renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _TOP:
        return f"{_TOP[stem]}.weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[rest]}.weight"


def permuted(
    name: str, weight: npt.NDArray[np.float32], config: dict[str, Any], *, back: bool = False
) -> npt.NDArray[np.float32]:
    """llama.cpp keeps the two halves of each rotary head interleaved; ``back`` takes them apart again."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    part = name.split(".")[-2]
    if part not in heads:
        return weight
    count = heads[part]
    halves = (2, weight.shape[0] // count // 2)
    split = weight.reshape(count, *(halves[::-1] if back else halves), *weight.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(weight.shape))
