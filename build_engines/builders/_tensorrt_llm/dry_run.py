"""A build, said and not done: checks, calls or commands, files with sizes, memory, container."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from build_engines.builders._tensorrt_llm.api_route import llm_call
from build_engines.builders._tensorrt_llm.calls import program
from build_engines.builders._tensorrt_llm.checks import FAILED, Check, check_target, memory_plan
from build_engines.builders._tensorrt_llm.command_route import EXAMPLES, commands
from build_engines.builders._tensorrt_llm.container import api, docker_command
from build_engines.builders._tensorrt_llm.target import Target
from build_engines.plan.memory import BLOCK, Memory, stage_weights
from build_engines.plan.parts import parameters

__all__ = ["DryRun", "dry_run"]

_NOT_VERIFIED = (
    "nothing of this was run on a GPU: names and flags are held to the API facts, sizes and memory are arithmetic",
    "activations and reserve are estimates; the first run on hardware measures them (docs/tensorrt_llm.md)",
)


@dataclass(frozen=True)
class DryRun:
    """``files``: planned bytes by name; 0 where they are small and not planned."""

    target: Target
    artifact: Path
    checks: tuple[Check, ...]
    steps: tuple[str, ...]  # a program, or commands
    files: dict[str, int]
    memory: Memory

    @property
    def sound(self) -> bool:
        return all(check.state != FAILED for check in self.checks)

    def to_record(self) -> dict[str, Any]:
        target, memory = self.target, self.memory
        return {
            "artifact": str(self.artifact),
            "kind": "tensorrt_llm-engine",
            "source": target.spec.model,
            "parameters": parameters(target.numbers),
            "quant": {
                "asked": target.spec.quant,
                "name": target.quant,
                "qformat": target.format.qformat,
                "quant_algo": target.format.algo or None,
                "group_size": target.layout.group_size or None,
                "kv_cache": target.spec.kv_dtype,
            },
            "tp": target.spec.tp,
            "pp": target.spec.pp,
            "world_size": target.world,
            "nodes": target.nodes,
            "gpu": target.gpu.name if target.gpu else None,
            "limits": asdict(target.limits),
            "route": target.route,
            "checks": [asdict(check) for check in self.checks],
            "sound": self.sound,
            "steps": list(self.steps),
            "files": self.files,
            "memory": None
            if not memory.total
            else {
                **asdict(memory),
                "kv": memory.kv,
                "kv_block": memory.kv_token * BLOCK,
                "sequences": memory.sequences(target.limits.max_seq_len),
            },
            "container": api()["container"]["image"],
            "enter": docker_command(target.spec),
            "not_verified": list(_NOT_VERIFIED),
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def dry_run(target: Target, engines: Path) -> DryRun:
    """The complete plan of a build."""
    artifact = engines / target.spec.name
    calibration = "$SCRATCH/calibration" if target.spec.calib and target.calibrates else ""
    if target.route == "llm_api":
        call = llm_call(target, target.spec.model, calibration)
        steps: tuple[str, ...] = (program(call, (f"save({str(artifact)!r})", "shutdown()")),)
    else:
        model, checkpoint = target.spec.model, "$SCRATCH/checkpoint"
        steps = tuple(map(str, commands(target, model, checkpoint, str(artifact), calibration)))
    return DryRun(target, artifact, tuple(check_target(target)), steps, _files(target), memory_plan(target))


def _files(target: Target) -> dict[str, int]:
    """Rank tp_rank + tp x stage holds a shard of its stage."""
    stages = stage_weights(target.numbers, target.layout) if target.spec.pp <= target.numbers.layers else ()
    ranks = {
        f"rank{stage * target.spec.tp + rank}.engine": size
        for stage, size in enumerate(stages)
        for rank in range(target.spec.tp)
    }
    return {"artifact.json": 0, "config.json": 0, **ranks, "tokenizer.json": 0}


def _lines(run: DryRun) -> Iterator[str]:
    target = run.target
    algo = target.format.algo or "no quantisation"
    count, spec = parameters(target.numbers), target.spec
    yield f"would build {run.artifact} (tensorrt_llm-engine) of {spec.model}, {count:,} parameters"
    yield f"  quant {target.quant} ({algo}), KV {spec.kv_dtype}, tp {spec.tp}, pp {spec.pp}, by {target.route}"
    yield "checks:"
    yield from (f"  [{check.state}] {check.subject}: {check.text}" for check in run.checks)
    yield "steps:" + (f" ({EXAMPLES}: the folder of the library's examples)" if target.route == "commands" else "")
    yield from (f"  {line}" for step in run.steps for line in step.splitlines())
    yield "files:"
    yield from (f"  {name}" + (f": about {size / 1e9:.2f} GB" if size else "") for name, size in run.files.items())
    if run.memory.total:
        memory = run.memory
        yield (
            f"memory of a GPU: {memory.weights / 1e9:.2f} GB weights, {memory.activations / 1e9:.2f} activations, "
            f"{memory.reserve / 1e9:.2f} reserve, {memory.kv / 1e9:.2f} KV cache ({memory.kv_token:,} bytes a token)"
        )
    yield f"container: {docker_command(target.spec)}"
    yield from (f"not verified: {text}" for text in _NOT_VERIFIED)
