"""A plan: everything that follows from a model, a kind of device and a wish, as one record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from build_engines.errors import SpecError
from build_engines.plan.ceilings import Ceilings, Machine, Offload, ceilings_of, offload_of
from build_engines.plan.devices import Cpu, Gpu
from build_engines.plan.formats import FORMATS, KV_FORMATS, missing_on
from build_engines.plan.memory import BLOCK, Layout
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parallel import Choice, choices
from build_engines.plan.parts import parameters
from build_engines.plan.traps import traps_of

__all__ = ["Plan", "Wish", "plan_model"]

_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the caller wants to run, and on how many devices."""

    count: int = 1
    per_node: int = 8
    quant: str = "none"
    kv: str = "auto"
    group: int = 0
    tp: int = 0  # 0: the plan chooses
    pp: int = 0
    length: int = 0  # tokens of a sequence, prompt and output; 0: 4096, or the context where it is shorter
    sequences: int = 8
    max_num_tokens: int = 8192
    price: float = 0.0  # dollars an hour and GPU
    memory_gb: float = 0.0  # of a CPU's machine; 0: unknown

    def __post_init__(self) -> None:
        for name in ("count", "per_node", "sequences", "max_num_tokens"):
            if getattr(self, name) < 1:
                what = "there must be one GPU at least" if name == "count" else "it must be 1 or more"
                raise SpecError(f"{name} {getattr(self, name)}: {what}; give the number of the machine.")
        for name in ("tp", "pp", "length", "group", "price", "memory_gb"):
            if getattr(self, name) < 0:
                raise SpecError(f"{name} {getattr(self, name)}: it must be 0 (not said) or more; leave it out.")
        if self.quant not in FORMATS:
            raise SpecError(f"quant '{self.quant}': it must be one of {', '.join(FORMATS)}.")
        if self.kv not in KV_FORMATS:
            raise SpecError(f"kv '{self.kv}': it must be one of {', '.join(KV_FORMATS)}.")

    @property
    def layout(self) -> Layout:
        return Layout(
            quant=self.quant,
            kv=self.kv,
            group=self.group,
            max_num_tokens=self.max_num_tokens,
            max_batch_size=self.sequences,
        )


@dataclass(frozen=True)
class Plan:
    model: ModelNumbers
    device: Gpu | Cpu
    wish: Wish
    length: int
    formats: dict[str, str]  # word -> why the GPU lacks it, or ""
    ranked: tuple[Choice, ...]
    ceilings: Ceilings
    offload: Offload | None
    traps: tuple[str, ...]

    @property
    def best(self) -> Choice:
        return self.ranked[0]

    @property
    def problems(self) -> list[str]:
        """Why the wish cannot be had; empty where it can."""
        lacking = [self.formats[self.wish.quant]] if self.formats.get(self.wish.quant) else []
        if isinstance(self.device, Gpu) and (why := missing_on(KV_FORMATS[self.wish.kv], self.device.version)):
            lacking.append(f"KV cache: {why}")
        lacking += self.best.refused
        if self.best.legal and not self.best.fits:
            offload = (
                f"; {self.offload.host_bytes / 1e9:.1f} GB a GPU would have to be offloaded" if self.offload else ""
            )
            lacking.append(
                f"no legal choice of {self.wish.count} x {self.device.name} holds the model and one sequence of "
                f"{self.length} tokens{offload}; use fewer bits, a shorter length, or more GPUs"
            )
        return lacking

    def to_record(self) -> dict[str, Any]:
        return {
            "model": {**asdict(self.model), "parameters": parameters(self.model)},
            "device": asdict(self.device),
            "wish": asdict(self.wish),
            "length": self.length,
            "block": BLOCK,
            "formats": self.formats,
            "problems": self.problems,
            "choices": [_choice_record(choice) for choice in self.ranked],
            "ceilings": {**asdict(self.ceilings), **self._dollars()},
            "offload": None if self.offload is None else asdict(self.offload),
            "traps": list(self.traps),
        }

    def _dollars(self) -> dict[str, float]:
        if not self.wish.price:
            return {}
        prompt, output = self.ceilings.dollars(self.wish.price, self.best.layout.world)
        return {"dollars_per_million_prompt_tokens": prompt, "dollars_per_million_output_tokens": output}


def plan_model(model: ModelNumbers, device: Gpu | Cpu, wish: Wish) -> Plan:
    """The plan; it raises nothing for a wish that cannot be had: ``problems`` says it."""
    length = wish.length or min(4096, model.context)
    if length > model.context:
        raise SpecError(f"length {length}: the model's context is {model.context} tokens; ask for fewer.")
    if isinstance(device, Cpu) and not wish.memory_gb:
        raise SpecError(f"memory_gb 0: the memory beside {device.name} is the machine's; give it with --memory-gb.")
    total = int((device.memory_gb if isinstance(device, Gpu) else wish.memory_gb) * 1e9)
    ranked = choices(
        model,
        wish.layout,
        total,
        count=wish.count,
        per_node=wish.per_node,
        length=length,
        sequences=wish.sequences,
        wanted=(wish.tp, wish.pp),
    )
    best = ranked[0]
    machine = _machine(device, wish)
    batch = max(1, min(wish.sequences, best.sequences or wish.sequences))
    gpu = device if isinstance(device, Gpu) else None
    return Plan(
        model,
        device,
        wish,
        length,
        {name: missing_on(row, gpu.version) if gpu else "" for name, row in FORMATS.items()},
        tuple(ranked[:_SHOWN]),
        ceilings_of(model, best.layout, machine, batch, length),
        None if best.fits else offload_of(best.memory, machine, length),
        tuple(traps_of(model, gpu, best, wish.sequences)),
    )


def _machine(device: Gpu | Cpu, wish: Wish) -> Machine:
    if isinstance(device, Cpu):
        return Machine(device.bandwidth_gbs * 1e9, device.flops)
    kind = FORMATS[wish.quant].arithmetic
    return Machine(device.bandwidth_gbs * 1e9, device.arithmetic(kind), device.host_gbs * 1e9)


def _choice_record(choice: Choice) -> dict[str, Any]:
    memory = choice.memory
    return {
        "tp": choice.layout.tp,
        "pp": choice.layout.pp,
        "world_size": choice.layout.world,
        "legal": choice.legal,
        "fits": choice.fits,
        "refused": list(choice.refused),
        "reasons": list(choice.reasons),
        "replicas": choice.replicas,
        "sequences": choice.sequences,
        "memory": {**asdict(memory), "kv": memory.kv, "kv_block": memory.kv_token * BLOCK, "blocks": memory.blocks},
    }
