"""A minute's measurement: the memory's bandwidth, and the token rate of a served model against what that allows.

A token of one stream reads every weight once, so bandwidth / bytes of the weights bounds the rate (the plan's ceiling
for one sequence). The share that is reached tells a machine that is not itself: far below what it was before, others
use its memory, its cores are throttled, or threads are set wrongly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from python_llm.artifact import Artifact
from python_llm.errors import CallerMistake
from python_llm.machine import usable_cpus
from triton_doctor.finding import Finding, advice, ok, unknown
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup
from triton_doctor.token_rate import token_rate

__all__ = ["bandwidth", "self_test"]

_AREA = "self-test"
_BYTES = 256 << 20  # of each array: beyond every cache
_SECONDS = 5.0
_LEAST_SHARE = 0.25  # of the ceiling: below, something is in the way; chosen, not measured


def self_test(machine: Machine, setup: Setup, rate: Callable[[Setup, str], float] = token_rate) -> Iterator[Finding]:
    """``rate``: tokens per second of one stream on a served model."""
    threads = usable_cpus(machine.root, len(machine.affinity))
    reached = bandwidth(threads)
    yield ok(_AREA, f"memory: {reached / 1e9:.1f} GB/s read, {threads} threads")
    if not setup.running(machine):
        yield unknown(_AREA, "token rate: no server runs on this run folder", "triton-llm serve, and this again")
        return
    for name in setup.serving():
        yield from _against_ceiling(setup, name, reached, rate)


def _against_ceiling(setup: Setup, name: str, reached: float, rate: Callable[[Setup, str], float]) -> Iterator[Finding]:
    (entry,) = (entry for entry in setup.entries() if entry.name == name)
    if entry.models == (name,):
        return  # a scorer makes no tokens
    try:
        weights = sum(file.size for file in Artifact.open(entry.artifact).manifest.files.values())
        found = rate(setup, name)
    except (CallerMistake, OSError, RuntimeError) as error:
        yield unknown(_AREA, f"model '{name}': {error}", "triton-llm doctor")
        return
    ceiling = reached / weights
    share = found / ceiling
    text = (
        f"model '{name}': {found:.1f} tokens/s in one stream, {share:.0%} of the {ceiling:.1f} that the memory allows"
    )
    if share < _LEAST_SHARE:
        yield advice(
            _AREA, text, "triton-llm doctor --symptom latency   # small models reach less: compare with yesterday"
        )
    else:
        yield ok(_AREA, text)


def bandwidth(threads: int, size: int = _BYTES, seconds: float = _SECONDS) -> float:
    """Bytes per second that so many threads read together; the best of several passes."""
    arrays = [np.ones(size // threads // 8) for _ in range(threads)]
    best, deadline = 0.0, time.monotonic() + seconds
    with ThreadPoolExecutor(threads) as pool:
        while True:
            begin = time.perf_counter()
            list(pool.map(np.max, arrays))  # numpy lets the interpreter go meanwhile
            best = max(best, sum(array.nbytes for array in arrays) / (time.perf_counter() - begin))
            if time.monotonic() > deadline:
                return best
