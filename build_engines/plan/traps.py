"""Known traps, each said only where a plan can fall into it. Sources: the library's code and issues, see the docs."""

from __future__ import annotations

from collections.abc import Iterator

from build_engines.plan.devices import Gpu
from build_engines.plan.memory import Layout, Memory
from build_engines.plan.model_numbers import ModelNumbers
from build_engines.plan.parallel import Choice

__all__ = ["traps_of"]


def traps_of(model: ModelNumbers, gpu: Gpu | None, best: Choice, sequences: int) -> list[str]:
    """For the choice that the plan would take; they are TensorRT-LLM's, and a CPU has none of them."""
    if gpu is None:
        return []
    return [*_of_memory(best.memory, best, sequences), *_of_layout(model, best.layout, gpu), *_of_kv(best.layout)]


def _of_memory(memory: Memory, best: Choice, sequences: int) -> Iterator[str]:
    if best.fits and best.sequences < sequences:
        yield (
            f"KV pressure: {best.sequences} of {sequences} sequences fit. GUARANTEED_NO_EVICT (the default) queues the "
            "rest; MAX_UTILIZATION starts them, pauses some half way and computes them again"
        )
    yield (
        "free_gpu_memory_fraction is a share of what is free after the weights, not of the GPU; two models on one GPU "
        "need max_tokens or max_gpu_total_bytes instead"
    )


def _of_layout(model: ModelNumbers, layout: Layout, gpu: Gpu) -> Iterator[str]:
    if layout.tp > 1 and not gpu.has_nvlink:
        yield f"{gpu.name} has no NVLink: {2 * model.layers // layout.pp} all-reduces a token go over PCIe"
    if layout.tp > 1 and model.vocab % layout.tp:
        yield f"the vocabulary of {model.vocab} is padded to a multiple of tp {layout.tp}"
    if layout.format.calibrated:
        yield "calibration reads cnn_dailymail from the network unless CALIB names a local text"
    if gpu.version > layout.format.verified_to:
        yield f"{layout.quant} is not listed for {gpu.name} (compute capability {gpu.capability}): not verified there"


def _of_kv(layout: Layout) -> Iterator[str]:
    if layout.kv != "auto":
        yield (
            f"KV cache {layout.kv}: an engine has it from its build (its runtime dtype must stay auto); a checkpoint "
            "from kv_cache_config.dtype at start"
        )
