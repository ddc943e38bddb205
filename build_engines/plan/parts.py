"""The matrices of a model, how tensor parallelism splits each, and how many parameters there are.

Column-parallel matrices (q, k, v, gate, up) divide their outputs over the ranks, row-parallel ones (o, down) their
inputs (Shoeybi et al. 2019, Megatron-LM). Fewer KV heads than ranks: each is copied (TensorRT-LLM's mapping does so
when the ranks are a multiple of the KV heads).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from build_engines.plan.model_numbers import ModelNumbers

__all__ = ["Matrix", "active_parameters", "layer_matrices", "layer_vectors", "parameters", "stage_layers"]

Split = Literal["column", "kv", "row", "none"]


@dataclass(frozen=True)
class Matrix:
    name: str
    inputs: int
    outputs: int
    split: Split
    unit: int = 1  # outputs that stay together: a head
    copies: int = 1  # one for each expert
    used: int = 1  # of the copies, by one token
    quantised: bool = True

    def shard(self, tp: int) -> tuple[int, int]:
        """(inputs, outputs) on the fullest of ``tp`` ranks."""
        if self.split == "row":
            return math.ceil(self.inputs / tp), self.outputs
        if self.split == "none":
            return self.inputs, self.outputs
        return self.inputs, math.ceil(self.outputs / self.unit / tp) * self.unit

    @property
    def size(self) -> int:
        return self.inputs * self.outputs * self.copies


def layer_matrices(model: ModelNumbers) -> tuple[Matrix, ...]:
    """The matrices of one layer."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    copies, used = max(model.experts, 1), max(model.experts_per_token, 1)
    mlp = [Matrix("gate", model.hidden, model.intermediate, "column", 1, copies, used)] if model.gated else []
    router = [Matrix("router", model.hidden, model.experts, "none", quantised=False)] if model.experts else []
    return (
        Matrix("q", model.hidden, wide, "column", model.head_dim),
        Matrix("k", model.hidden, narrow, "kv", model.head_dim),
        Matrix("v", model.hidden, narrow, "kv", model.head_dim),
        Matrix("o", wide, model.hidden, "row"),
        *router,
        *mlp,
        Matrix("up", model.hidden, model.intermediate, "column", 1, copies, used),
        Matrix("down", model.intermediate, model.hidden, "row", 1, copies, used),
    )


def layer_vectors(model: ModelNumbers) -> int:
    """Elements of one layer's norms and biases: never quantised, and counted whole on each rank."""
    wide, narrow = model.heads * model.head_dim, model.kv_heads * model.head_dim
    norms = model.norms * model.hidden * (2 if model.norm_bias else 1) + 2 * model.head_dim * model.qk_norm
    biases = (wide + 2 * narrow) * model.qkv_bias + model.hidden * model.output_bias
    mlp = (model.intermediate + model.hidden) * model.mlp_bias
    return norms + biases + mlp


def parameters(model: ModelNumbers) -> int:
    """Every weight of the model, as its checkpoint counts them."""
    layer = sum(matrix.size for matrix in layer_matrices(model)) + layer_vectors(model)
    ends = model.vocab * model.hidden * (1 if model.tied else 2) + model.positions * model.hidden
    return model.layers * layer + ends + model.hidden * (2 if model.norm_bias else 1)


def active_parameters(model: ModelNumbers) -> int:
    """Weights of the matrices that one token is multiplied by: the chosen experts, the last layer, no embedding."""
    layer = sum(matrix.size // matrix.copies * matrix.used for matrix in layer_matrices(model))
    return model.layers * layer + model.vocab * model.hidden


def stage_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each pipeline stage: the first stages take one more where they do not divide (the library's rule)."""
    most, rest = divmod(layers, pp)
    return tuple(most + (stage < rest) for stage in range(pp))
