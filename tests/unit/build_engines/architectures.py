"""Tiny checkpoints, one of each architecture, and the two ways to their logits: transformers and the paged runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.runners.openvino import OpenVinoRunner
from python_llm.settings import ServingConfig

__all__ = ["ARCHITECTURES", "EXACT", "paged_logits", "reference_logits"]

Floats = npt.NDArray[np.float32]
EXACT = ServingConfig(kv_cache_precision="f32", inference_precision="f32", kv_cache_bytes=4 << 20)

_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LONGROPE = {"type": "longrope", "short_factor": [1.25] * 8, "long_factor": [2.0] * 8}
_WINDOW = 24  # smaller than the prompts and than a block

ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "llama, llama3 rope": {"rope_scaling": {**_LLAMA3, "original_max_position_embeddings": 32}},
    "llama, linear rope": {"layers": 1, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "llama, dynamic rope": {"layers": 1, "context": 96, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "qwen2, yarn rope": {
        "architecture": "qwen2",
        "layers": 1,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
    },
    "qwen3": {"architecture": "qwen3", "layers": 1, "head_dim": 32},
    "mistral, sliding window": {"architecture": "mistral", "layers": 1, "sliding_window": _WINDOW, "head_dim": 16},
    "gemma, tied": {"architecture": "gemma", "layers": 1, "head_dim": 16, "tie_word_embeddings": True},
    "gemma2, no attention soft-cap": {
        "architecture": "gemma2",
        "head_dim": 16,
        "sliding_window": _WINDOW,
        "final_logit_softcapping": 5.0,
        "attn_logit_softcapping": None,
        "tie_word_embeddings": True,
    },
    "phi3, longrope": {
        "architecture": "phi3",
        "layers": 1,
        "original_max_position_embeddings": 96,
        "rope_scaling": _LONGROPE,
        "sliding_window": _WINDOW,
    },
    "gpt_neox, partial rotary": {"architecture": "gpt_neox", "layers": 1, "rotary_pct": 0.25},
    "gpt2, learned positions": {"architecture": "gpt2", "layers": 1},
    "opt, learned positions": {"architecture": "opt", "layers": 1, "ffn_dim": 128, "word_embed_proj_dim": 64},
    "cohere, scaled logits": {"architecture": "cohere", "layers": 1, "tie_word_embeddings": True, "logit_scale": 0.25},
}


def reference_logits(folder: Path, prompts: Sequence[npt.NDArray[np.int64]]) -> list[Floats]:
    """transformers in fp32, each prompt alone."""
    import torch
    from transformers import AutoModelForCausalLM

    # Eager attention is the definition: the fused one leaves out what it does not know.
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return [model(torch.from_numpy(prompt)[None]).logits[0].numpy() for prompt in prompts]


def paged_logits(
    runner: OpenVinoRunner, prompts: Sequence[npt.NDArray[np.int64]], chunk: int, decoded: int = 6
) -> list[Floats]:
    """Logits of every position: chunks of ``chunk`` tokens, the last ``decoded`` tokens one by one, all together.

    Each sequence's blocks are shuffled among the others'.
    """
    count = -(-max(map(len, prompts)) // runner.block_size)
    table = np.random.default_rng(5).permutation(runner.block_count)[: count * len(prompts)].reshape(-1, count)
    rows: list[list[Floats]] = [[] for _ in prompts]
    past = [0] * len(prompts)
    while live := [i for i, prompt in enumerate(prompts) if past[i] < len(prompt)]:
        parts = []
        for i in live:
            left = len(prompts[i]) - past[i]
            parts.append(prompts[i][past[i] :][: min(chunk, left - decoded) if left > decoded else 1])
        begins = np.cumsum([0, *map(len, parts)])
        logits = runner.forward(_batch(parts, [past[i] for i in live], table[live], runner.block_size)).copy()
        for i, begin, end in zip(live, begins, begins[1:], strict=False):
            rows[i].append(logits[begin:end])
            past[i] += int(end - begin)
    return [np.concatenate(found) for found in rows]


def _batch(
    parts: list[npt.NDArray[np.int64]], past: list[int], table: npt.NDArray[np.int64], block_size: int
) -> ForwardBatch:
    ends = [before + len(part) for before, part in zip(past, parts, strict=True)]
    used = [blocks[: -(-end // block_size)] for blocks, end in zip(table, ends, strict=True)]
    return ForwardBatch(
        token_ids=np.concatenate(parts),
        positions=np.concatenate([np.arange(b, e) for b, e in zip(past, ends, strict=True)]),
        past_lens=np.array(past, np.int32),
        subsequence_begins=np.cumsum([0, *map(len, parts)]).astype(np.int32),
        block_indices=np.concatenate(used).astype(np.int32),
        block_begins=np.cumsum([0, *map(len, used)]).astype(np.int32),
        wanted=np.arange(sum(map(len, parts))),
    )
