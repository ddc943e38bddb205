"""What a build will take, said before it starts: seconds, memory and disk, from the checkpoint's size and the quant.

Simple arithmetic with figures measured on two cores (docs/building.md); the next machine differs, the order of
magnitude does not. The default model's parameters dominate none of the fixed parts, larger models' do.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from build_engines.checkpoint import Checkpoint
from build_engines.errors import MemoryShortage, StorageError
from build_engines.parameters import Parameters, count_parameters
from build_engines.spec import EngineSpec

__all__ = ["Estimate", "Machine", "check_room", "estimate_of"]

_FP32 = 4.0  # bytes a parameter: a GGUF is imported in fp32, and the quality check's source runs in it
_FP16 = 2.0  # the most that int4 with fp16 beside it takes
_STORED = {"int8": 1.03, "int4": 0.69, "fp8": 1.03, "int8_sq": 1.03, "int8_wo": 1.03, "nvfp4": 0.69}
_STORED |= {"int4_wo": 0.69, "int4_awq": 0.69, "w4a8_awq": 0.69}  # bytes a parameter in the artifact, scales included
_FIXED_DISK = 60e6  # tokenizer, the IR's graph, and room to breathe
_FIXED_MEMORY = 0.7e9  # Python with torch, transformers and OpenVINO
_LOGITS = 0.35e9  # of one passage, source and engine, at 50,000 words of vocabulary

# Seconds: a fixed part and one per thousand million parameters, by phase.
_SECONDS = {
    "import": (2.0, 140.0),  # of a GGUF
    "export": (5.0, 55.0),
    "none": (0.5, 10.0),
    "int8": (4.0, 40.0),
    "fp8": (4.0, 40.0),
    "int4": (5.0, 80.0),
    "verify": (2.0, 15.0),
    "quality": (3.0, 95.0),
    "write": (0.5, 20.0),
    "gpu": (120.0, 20.0),  # quantise and compile in the container: a guess, never measured
}


@dataclass(frozen=True)
class Estimate:
    """``disk`` and ``memory`` in bytes, at their peak."""

    seconds: float
    disk: int
    memory: int

    def to_record(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return f"about {_duration(self.seconds)}, {_gigabytes(self.memory)} of memory, {_gigabytes(self.disk)} of disk"


@dataclass(frozen=True)
class Machine:
    """Room on this machine, in bytes."""

    disk: int
    memory: int

    @staticmethod
    def here(folder: Path) -> Machine:
        """Free room now: on the file system of ``folder``, which need not exist yet, and in memory."""
        while not folder.exists():
            folder = folder.parent
        return Machine(disk=shutil.disk_usage(folder).free, memory=_free_memory())


def estimate_of(spec: EngineSpec, checkpoint: Checkpoint, *, on_gpu: bool = False) -> Estimate:
    """What building ``checkpoint`` as ``spec`` says will take; ``on_gpu``: in the memory of GPUs."""
    parameters = count_parameters(checkpoint)
    if on_gpu:
        return _estimate_on_gpu(parameters)
    return _estimate(spec, parameters, is_gguf=checkpoint.is_gguf)


def _estimate(spec: EngineSpec, parameters: Parameters, *, is_gguf: bool) -> Estimate:
    count = parameters.count
    source = _FP32 if is_gguf else parameters.bytes / max(count, 1)
    stored = _FP16 if spec.int4_rest == "fp16" else _STORED.get(spec.quant, source)
    compress = spec.quant if spec.quant in _SECONDS else "int4"  # of a GPU's formats, unmeasured
    phases = ["export", compress, "verify", "write", *["import"] * is_gguf, *["quality"] * spec.check_quality]
    seconds = sum(fixed + rate * count / 1e9 for fixed, rate in map(_SECONDS.__getitem__, phases))
    memory = 2 * source * count  # the traced model and its IR, or two copies in an import
    if spec.check_quality:
        memory = max(memory, (_FP32 + 2 * stored) * count + _LOGITS)  # a compiled engine repacks its weights
    disk = (_FP32 * is_gguf + source + stored) * count
    return Estimate(round(seconds, 1), disk=int(disk + _FIXED_DISK), memory=int(memory + _FIXED_MEMORY))


def _estimate_on_gpu(parameters: Parameters) -> Estimate:
    """At most the source once in memory, where the GPUs cannot hold it; a converted copy and the engine on the disk."""
    seconds = sum(fixed + rate * parameters.count / 1e9 for fixed, rate in (_SECONDS["gpu"], _SECONDS["write"]))
    disk = 2 * parameters.bytes + _FIXED_DISK
    return Estimate(round(seconds, 1), disk=int(disk), memory=int(parameters.bytes + _FIXED_MEMORY))


def check_room(estimate: Estimate, machine: Machine, subject: str, folder: Path) -> None:
    """Refuse a build that would fill the disk or the memory.

    Raises:
        StorageError, MemoryShortage: which of them, what is there and what is needed.
    """
    if machine.disk < estimate.disk:
        raise StorageError(
            f"folder '{folder}': {_gigabytes(machine.disk)} free, the build of '{subject}' needs about "
            f"{_gigabytes(estimate.disk)} while it runs; free some space or choose another folder (--engines)."
        )
    if machine.memory < estimate.memory:
        raise MemoryShortage(
            f"model '{subject}': {_gigabytes(machine.memory)} of memory available, its build needs about "
            f"{_gigabytes(estimate.memory)}; end other programs or build on a larger machine; --no-quality-check "
            "needs less, since the check runs the source in fp32."
        )


def _free_memory() -> int:
    """What the system says is available, or less where this process' control group has a limit."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    return min(available, *_group_limits(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _group_limits() -> list[int]:
    """Free room under a container's memory limit (control groups, version 2); empty where there is none."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        return [] if limit == "max" else [max(0, int(limit) - int((group / "memory.current").read_text()))]
    except (OSError, ValueError):
        return []


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
