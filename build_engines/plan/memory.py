"""The memory of one GPU: of the fullest of tp x pp ranks.

weights     each matrix's shard at the format's bits, with its scales; embeddings, last layer, norms, biases and the
            router of experts stay at 16 bits
kv token    2 (K and V) x layers of the stage x KV heads of the rank x head size x bytes
activations an estimate: the largest layer's intermediate results of max_num_tokens tokens, and the logits in fp32
reserve     an estimate: CUDA context, TensorRT's and NCCL's own buffers
kv cache    what is left, times the share the library may take (free_gpu_memory_fraction, 0.9 by default)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from build_engines.plan.formats import FORMATS, KV_FORMATS, Format
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parts import Matrix, layer_matrices, layer_vectors, stage_layers

__all__ = [
    "BLOCK",
    "Layout",
    "Memory",
    "activation_bytes",
    "embedding_bytes",
    "kv_token_bytes",
    "memory_of",
    "weight_bytes",
]

BLOCK = 32  # tokens of a KV block: the library's tokens_per_block
KV_SHARE = 0.9  # the library's free_gpu_memory_fraction
_PLAIN = 2  # bytes of what is not quantised
_CONTEXT = 1.2e9  # CUDA, TensorRT and Python: an assumption, to be measured on the first run
_NCCL = 0.4e9  # with more than one rank: an assumption


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a model lies on its GPUs. ``embedding_sharded``: over the tp ranks, as the LLM API does it."""

    quant: str = "none"
    kv: str = "auto"
    tp: int = 1
    pp: int = 1
    group: int = 0  # 0: the format's own
    embedding_sharded: bool = True
    max_num_tokens: int = 8192
    max_batch_size: int = 64

    @property
    def format(self) -> Format:
        return FORMATS[self.quant]

    @property
    def group_size(self) -> int:
        return (self.group or self.format.group) if self.format.group else 0

    @property
    def world(self) -> int:
        return self.tp * self.pp


@dataclass(frozen=True)
class Memory:
    """Bytes of the fullest rank's GPU."""

    total: int
    weights: int
    activations: int
    reserve: int
    kv_token: int  # of one token

    @property
    def free(self) -> int:
        """Bytes left for the KV cache; negative where the weights do not fit."""
        return self.total - self.weights - self.activations - self.reserve

    @property
    def kv(self) -> int:
        return max(0, int(self.free * KV_SHARE))

    @property
    def blocks(self) -> int:
        return self.kv // (self.kv_token * BLOCK)

    def sequences(self, length: int) -> int:
        """Sequences of ``length`` tokens that the cache holds at once."""
        return self.blocks // math.ceil(length / BLOCK)


def memory_of(model: ModelNumbers, layout: Layout, total: int) -> Memory:
    """The budget of one GPU of ``total`` bytes."""
    reserve = int(_CONTEXT + (_NCCL if layout.world > 1 else 0))
    return Memory(
        total, weight_bytes(model, layout), activation_bytes(model, layout), reserve, kv_token_bytes(model, layout)
    )


def weight_bytes(model: ModelNumbers, layout: Layout) -> int:
    """Of the fullest rank."""
    return max(stage_weights(model, layout))


def stage_weights(model: ModelNumbers, layout: Layout) -> tuple[int, ...]:
    """Of one rank of each pipeline stage."""
    layer = sum(_matrix_bytes(matrix, layout) for matrix in layer_matrices(model)) + _PLAIN * layer_vectors(model)
    stages = [count * layer for count in stage_layers(model.layers, layout.pp)]
    stages[0] += embedding_bytes(model, layout) + model.positions * model.hidden * _PLAIN
    if not model.tied or layout.pp > 1 or not layout.embedding_sharded:
        stages[-1] += _vocab_rows(model, layout.tp) * model.hidden * _PLAIN
    stages[-1] += model.hidden * (2 if model.norm_bias else 1) * _PLAIN
    return tuple(stages)


def embedding_bytes(model: ModelNumbers, layout: Layout) -> int:
    """The table of one rank of the first stage."""
    return _vocab_rows(model, layout.tp if layout.embedding_sharded else 1) * model.hidden * _PLAIN


def _vocab_rows(model: ModelNumbers, tp: int) -> int:
    return math.ceil(model.vocab / tp)


def _matrix_bytes(matrix: Matrix, layout: Layout) -> int:
    inputs, outputs = matrix.shard(layout.tp)
    if not matrix.quantised:
        return inputs * outputs * _PLAIN * matrix.copies
    row = layout.format
    size = math.ceil(inputs * outputs * row.bits / 8) + outputs * row.channel_bytes + inputs * row.input_bytes
    if layout.group_size:
        size += outputs * math.ceil(inputs / layout.group_size) * row.scale_bits // 8
    if row.arithmetic != "fp16":
        size += 8  # one fp32 scale for the weights, one for what they are multiplied by
    return size * matrix.copies


def kv_token_bytes(model: ModelNumbers, layout: Layout) -> int:
    """Of one token on the fullest rank."""
    heads = math.ceil(model.kv_heads / layout.tp)
    layers = max(stage_layers(model.layers, layout.pp))
    return math.ceil(2 * layers * heads * model.head_dim * KV_FORMATS[layout.kv].bytes)


def activation_bytes(model: ModelNumbers, layout: Layout) -> int:
    """An estimate: hidden states in and out, q, k, v, and the MLP's wide results, then the last layer's logits."""
    used = max(model.experts_per_token, 1)
    wide = (2 if model.gated else 1) * math.ceil(model.intermediate / layout.tp) * used
    heads = math.ceil((model.heads + 2 * model.kv_heads) * model.head_dim / layout.tp)
    step = layout.max_num_tokens * (3 * model.hidden + max(wide, heads)) * _PLAIN
    return step + layout.max_batch_size * model.vocab * 4
