"""Bounds no run exceeds (Williams et al. 2009, roofline): bytes over bandwidth, operations over peak.

decode step   max(bytes read / bandwidth, operations / peak) of the slowest stage; read are the rank's weights once and
              the KV cache of every sequence (not the embedding, of which a token reads a row; of experts those that
              some token of the batch chooses: E x (1 - (1 - k/E)^batch) of E on average)
operations    2 x active parameters a token (Kaplan et al. 2020), and 4 x layers x heads x head size x context in
              attention
tokens/s      batch / step: the stages of a pipeline work on different sequences at once
dollars       price of the GPUs of one copy / tokens of an hour
"""

from __future__ import annotations

from dataclasses import dataclass

from build_engines.plan.memory import Layout, Memory, embedding_bytes, kv_token_bytes, stage_weights
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parts import active_parameters, layer_matrices

__all__ = ["Ceilings", "Machine", "Offload", "ceilings_of", "offload_of"]


@dataclass(frozen=True)
class Machine:
    """Of one GPU or CPU: bytes/s of memory, operations/s, bytes/s to the host's memory (0: it is the host)."""

    bandwidth: float
    operations: float
    host: float = 0.0


@dataclass(frozen=True)
class Ceilings:
    """At best. Tokens per second of one copy of the model."""

    batch: int
    length: int
    decode_one: float  # one sequence alone
    decode: float  # ``batch`` sequences together
    prefill: float
    decode_bound: str  # memory or arithmetic

    def dollars(self, price: float, gpus: int) -> tuple[float, float]:
        """Of a million (prompt, output) tokens, at ``price`` an hour and GPU."""
        hour = price * gpus / 3600 * 1e6
        return hour / self.prefill, hour / self.decode


def ceilings_of(model: ModelNumbers, layout: Layout, machine: Machine, batch: int, length: int) -> Ceilings:
    """``batch`` sequences of ``length`` tokens each."""
    alone, _ = _step(model, layout, machine, 1, length)
    step, bound = _step(model, layout, machine, batch, length)
    per_token = 2 * active_parameters(model) + _attention(model, length) / 2
    return Ceilings(
        batch,
        length,
        decode_one=1 / (alone * layout.pp),
        decode=batch / step,
        prefill=layout.world * machine.operations / per_token,
        decode_bound=bound,
    )


def _attention(model: ModelNumbers, context: int) -> float:
    return 4.0 * model.layers * model.heads * model.head_dim * context


def _step(model: ModelNumbers, layout: Layout, machine: Machine, batch: int, length: int) -> tuple[float, str]:
    """Seconds of the slowest stage for one token of each sequence, and what bounds it."""
    stages = list(stage_weights(model, layout))
    if not model.tied:  # a tied table is the last layer too
        stages[0] -= embedding_bytes(model, layout)
    read = max(stages) * read_share(model, batch) + batch * length * kv_token_bytes(model, layout)
    operations = batch * (2 * active_parameters(model) + _attention(model, length)) / layout.world
    memory, arithmetic = read / machine.bandwidth, operations / machine.operations
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


def read_share(model: ModelNumbers, batch: int) -> float:
    """Share of the weights that a step reads: all but the experts no token chose."""
    if not model.experts:
        return 1.0
    chosen = 1 - (1 - model.experts_per_token / model.experts) ** batch
    sizes = [(matrix.size, matrix.copies > 1) for matrix in layer_matrices(model)]
    total = sum(size for size, _ in sizes)
    return sum(size * (chosen if expert else 1.0) for size, expert in sizes) / total


@dataclass(frozen=True)
class Offload:
    """Weights that must lie in host memory when the GPU holds one sequence beside the rest."""

    host_bytes: int  # of one GPU
    gpu_share: float  # of the weights that stay
    decode_one: float  # tokens/s at best: what lies outside comes over the bus for each token


def offload_of(memory: Memory, machine: Machine, length: int) -> Offload | None:
    """None where nothing must leave the GPU."""
    room = memory.total - memory.activations - memory.reserve - length * memory.kv_token
    outside = memory.weights - room
    if outside <= 0:
        return None
    outside = min(outside, memory.weights)
    inside = memory.weights - outside
    seconds = outside / machine.host + inside / machine.bandwidth if machine.host else float("inf")
    return Offload(outside, inside / memory.weights, 1 / seconds)
