"""Which tp x pp are legal, and which is best, each with its reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from build_engines.plan.memory import Layout, Memory, memory_of
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parts import layer_matrices, stage_layers

__all__ = ["Choice", "choices", "refusals"]


@dataclass(frozen=True)
class Choice:
    """One tp x pp. ``refused``: why it is not legal; ``reasons``: what speaks for and against it."""

    layout: Layout
    memory: Memory
    sequences: int
    replicas: int  # of it on these GPUs
    refused: tuple[str, ...]
    reasons: tuple[str, ...]
    crosses_nodes: bool

    @property
    def legal(self) -> bool:
        return not self.refused

    @property
    def fits(self) -> bool:
        return self.legal and self.memory.free > 0 and self.sequences > 0


def refusals(model: ModelNumbers, layout: Layout) -> list[str]:
    """Every rule that this layout of the model breaks, with its remedy; empty where it is legal."""
    tp, pp = layout.tp, layout.pp
    found = []
    if broken := _undivided(model, tp):
        legal = ", ".join(str(n) for n in range(1, 65) if not _undivided(model, n))
        found.append(f"tp {tp}: it must divide {' and '.join(broken)}; choose one of {legal}")
    if pp > model.layers:
        found.append(f"pp {pp}: the model has {model.layers} layers and a stage holds one at least; lower pp")
    return found if broken else found + list(_ungrouped(model, layout))


def _undivided(model: ModelNumbers, tp: int) -> list[str]:
    """What a tp group cannot share evenly; KV heads may be copied instead."""
    rows = (
        (model.heads % tp, f"the {model.heads} heads"),
        (model.kv_heads % tp and tp % model.kv_heads, f"the {model.kv_heads} KV heads, or be a multiple of them,"),
        (model.intermediate % tp, f"the intermediate size {model.intermediate}"),
    )
    return [what for rest, what in rows if rest]


def _ungrouped(model: ModelNumbers, layout: Layout) -> Iterator[str]:
    """A group must divide the inputs that a rank multiplies: of row-parallel matrices, its share."""
    tp, group = layout.tp, layout.group_size
    for matrix in layer_matrices(model) if group else ():
        inputs = matrix.inputs // tp if matrix.split == "row" else matrix.inputs
        if matrix.quantised and inputs % group:
            yield (
                f"group size {group}: it must divide the {inputs} inputs of '{matrix.name}' on one of {tp} ranks; "
                "choose a smaller tp, another group size (--group-size), or a quant without groups"
            )
            return


def choices(
    model: ModelNumbers,
    layout: Layout,
    total: int,
    *,
    count: int,
    per_node: int,
    length: int,
    sequences: int = 1,
    wanted: tuple[int, int] = (0, 0),
) -> list[Choice]:
    """Every tp x pp of at most ``count`` GPUs, the best first.

    ``sequences`` of ``length`` tokens must fit; ``wanted``: (tp, pp) the caller fixed, 0 where it is free.
    """
    found = [
        _choice(model, replace(layout, tp=tp, pp=pp), total, count, per_node, length)
        for tp in ([wanted[0]] if wanted[0] else range(1, count + 1))
        for pp in ([wanted[1]] if wanted[1] else range(1, count // tp + 1))
    ]
    return sorted(found, key=lambda choice: _rank(choice, sequences))


def _choice(model: ModelNumbers, layout: Layout, total: int, count: int, per_node: int, length: int) -> Choice:
    refused = refusals(model, layout)
    if layout.world > count:
        refused.append(f"tp {layout.tp} x pp {layout.pp} = {layout.world}: only {count} GPUs; lower one, or add GPUs")
    memory = memory_of(model, layout, total)
    crosses = layout.tp > per_node or bool(per_node % layout.tp and layout.world > per_node)
    replicas = count // layout.world
    fitting = memory.sequences(length)
    reasons = tuple(_reasons(model, layout, memory, fitting, length, crosses, replicas))
    return Choice(layout, memory, fitting, replicas, tuple(refused), reasons, crosses)


def _reasons(
    model: ModelNumbers, layout: Layout, memory: Memory, fitting: int, length: int, crosses: bool, replicas: int
) -> Iterator[str]:
    if memory.free <= 0:
        yield f"does not fit: {(-memory.free) / 1e9:.1f} GB a GPU too much before any KV cache"
    else:
        yield f"{fitting} sequences of {length} tokens fit"
    if replicas > 1 and memory.free > 0:
        yield f"{replicas} copies of it on these GPUs"
    if crosses:
        yield "a tp group crosses a node: two all-reduces a layer over the network"
    elif layout.tp > 1:
        yield "two all-reduces a layer inside a node"
    if layout.pp > 1:
        stages = stage_layers(model.layers, layout.pp)
        uneven = "" if len(set(stages)) == 1 else f"; uneven: {'+'.join(map(str, stages))} layers"
        yield f"{layout.pp} stages: one sequence alone keeps one busy{uneven}"
    if layout.tp > model.kv_heads:
        yield f"each KV head lies on {layout.tp // model.kv_heads} ranks"


def _rank(choice: Choice, sequences: int) -> tuple[object, ...]:
    """Legal, fitting, inside a node; then the fewest GPUs, and tp before pp: it shortens each token's time."""
    layout = choice.layout
    return (
        not choice.legal,
        not choice.fits,
        choice.sequences < sequences,
        choice.crosses_nodes,
        layout.world if choice.fits else -layout.world,
        layout.pp,
    )
