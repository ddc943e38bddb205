"""What a GGUF file says of its model and transformers leaves out: rope scaling, head size, context.

Left out in silence these would make another model, so what cannot be said in transformers' words is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["correct_config", "unread_tensors"]

_FREQUENCIES = "rope_freqs.weight"  # one divisor a frequency: how llama.cpp writes Llama 3's scaling
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def correct_config(config: Any, reader: Any) -> None:
    """Complete transformers' configuration object from the file.

    Raises:
        ValueError: a scaling of rotary positions that cannot be said there.
    """
    architecture = str(reader.fields["general.architecture"].contents())

    def said(key: str) -> Any:
        field = reader.fields.get(f"{architecture}.{key}")
        return field.contents() if field is not None else None

    for name, key in (("max_position_embeddings", "context_length"), ("head_dim", "attention.key_length")):
        if said(key) is not None and getattr(config, name, None) is not None:
            setattr(config, name, int(said(key)))
    rotary = said("rope.dimension_count")
    if rotary is not None and getattr(config, "partial_rotary_factor", None) is not None:
        config.partial_rotary_factor = int(rotary) / (config.hidden_size // config.num_attention_heads)
    if hasattr(config, "sliding_window"):
        config.sliding_window = said("attention.sliding_window")
    if hasattr(config, "query_pre_attn_scalar"):  # Gemma's; no file says it, and llama.cpp knows it by the layers
        is_27b = config.num_hidden_layers == 62
        config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads if is_27b else config.head_dim
    if config.pad_token_id is not None and config.pad_token_id >= config.vocab_size:
        config.pad_token_id = None
    scaling = _scaling(said)
    divisors = next((tensor.data for tensor in reader.tensors if tensor.name == _FREQUENCIES), None)
    if divisors is not None:
        scaling = _llama3(config, np.asarray(divisors, np.float64))
    if scaling:
        config.rope_scaling = scaling


def _scaling(said: Any) -> dict[str, Any] | None:
    kind, factor = said("rope.scaling.type"), said("rope.scaling.factor")
    if kind in (None, "none"):
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": float(factor)}
    if kind == "yarn":
        original = said("rope.scaling.original_context_length")
        scaling = {"rope_type": "yarn", "factor": float(factor)}
        return scaling | ({"original_max_position_embeddings": int(original)} if original else {})
    raise ValueError(f"rope scaling of type '{kind}'")


def _llama3(config: Any, divisors: Any) -> dict[str, Any]:
    """Llama 3's scaling whose divisors these are; its constants are the same in every release but the factor."""
    scaling = {"rope_type": "llama3", "factor": float(divisors.max()), **_LLAMA3}
    size = 2 * len(divisors)
    frequencies = config.rope_theta ** -(np.arange(0, size, 2) / size)
    share = _LLAMA3["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    smooth = np.clip((share - 1.0) / (4.0 - 1.0), 0.0, 1.0)
    if not np.allclose(divisors, 1 / ((1 - smooth) / scaling["factor"] + smooth), rtol=1e-3):
        raise ValueError(f"{_FREQUENCIES}: a scaling of rotary positions that is not Llama 3's")
    return scaling


def unread_tensors(reader: Any, model: Any) -> list[str]:
    """Tensors of the file that transformers would leave out."""
    from transformers.modeling_gguf_pytorch_utils import get_gguf_hf_weights_map

    known = {*get_gguf_hf_weights_map(model), _FREQUENCIES}
    # Experts lie packed in a file, and transformers unpacks them by itself.
    return sorted(t.name for t in reader.tensors if t.name not in known and "_exps." not in t.name)
