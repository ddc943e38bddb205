"""A plan as a table to read."""

from __future__ import annotations

from collections.abc import Iterator

from build_engines.plan.devices import Gpu
from build_engines.plan.memory import BLOCK
from build_engines.plan.parallel import Choice
from build_engines.plan.parts import active_parameters, parameters
from build_engines.plan.report import Plan

__all__ = ["plan_text"]


def plan_text(plan: Plan) -> str:
    return "\n".join([*_head(plan), "", *_choices(plan), "", *_ceilings(plan), "", *_formats(plan), *_tail(plan)])


def _head(plan: Plan) -> Iterator[str]:
    model, wish = plan.model, plan.wish
    active = active_parameters(model)
    count = parameters(model)
    yield f"{model.family}: {count:,} parameters" + (f", {active:,} used by a token" if model.experts else "")
    yield (
        f"  {model.layers} layers, hidden {model.hidden}, {model.heads} heads, {model.kv_heads} KV heads of "
        f"{model.head_dim}, MLP {model.intermediate}, vocabulary {model.vocab}, context {model.context}"
    )
    asked = f"{wish.sequences} x {plan.length} tokens"
    yield f"{wish.count} x {plan.device.name}, quant {wish.quant}, KV {wish.kv}, {asked}"
    yield f"  figures: {plan.device.source} ({plan.device.date})"


def _choices(plan: Plan) -> Iterator[str]:
    kind = "GPU" if isinstance(plan.device, Gpu) else "CPU's machine"
    yield f"{'tp':>3} {'pp':>3} {'weights':>9} {'activ.':>8} {'reserve':>8} {'KV':>8} {'seqs':>6}  GB of one {kind}"
    yield from (_row(choice) for choice in plan.ranked)
    memory = plan.best.memory
    yield f"  a token's KV: {memory.kv_token:,} bytes on one {kind}, a block of {BLOCK}: {memory.kv_token * BLOCK:,}"


def _row(choice: Choice) -> str:
    memory, layout = choice.memory, choice.layout
    why = "; ".join(choice.refused or choice.reasons)
    figures = f"{memory.weights / 1e9:9.2f} {memory.activations / 1e9:8.2f} {memory.reserve / 1e9:8.2f}"
    mark = "" if choice.fits else ("NOT LEGAL: " if choice.refused else "NO ROOM: ")
    return f"{layout.tp:>3} {layout.pp:>3} {figures} {memory.kv / 1e9:8.2f} {choice.sequences:>6}  {mark}{why}"


def _ceilings(plan: Plan) -> Iterator[str]:
    found = plan.ceilings
    yield "at best (roofline; no run reaches it), one copy of the first row:"
    yield f"  decode, 1 sequence: {found.decode_one:,.0f} tokens/s"
    yield f"  decode, {found.batch} sequences: {found.decode:,.0f} tokens/s, bound by {found.decode_bound}"
    yield f"  prefill: {found.prefill:,.0f} tokens/s"
    if plan.wish.price:
        prompt, output = found.dollars(plan.wish.price, plan.best.layout.world)
        yield f"  at ${plan.wish.price:g} a GPU and hour: ${prompt:.4f} a million prompt tokens, ${output:.4f} output"
    if plan.offload:
        outside = plan.offload
        yield (
            f"  offload: {outside.host_bytes / 1e9:.1f} GB of weights a GPU to host memory, {outside.gpu_share:.0%} "
            f"stay; then {outside.decode_one:.2f} tokens/s at best"
        )


def _formats(plan: Plan) -> Iterator[str]:
    if not isinstance(plan.device, Gpu):
        return
    here = [name for name, why in plan.formats.items() if not why]
    yield f"formats of {plan.device.name} ({plan.device.capability}): {', '.join(here)}"
    yield from (f"  not here: {why}" for why in plan.formats.values() if why)


def _tail(plan: Plan) -> Iterator[str]:
    yield from (f"  mind: {trap}" for trap in plan.traps)
    yield from (f"PROBLEM: {problem}" for problem in plan.problems)
