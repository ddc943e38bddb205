"""What a forward pass costs under other properties of the plugin: the same steps in turns, no server, no sampling.

    .venv/bin/python tests/soak/step_cost.py engines/smollm2 --variants product bf16 group64

Each line: a step, its median in ms under the product's own properties, and the ratio of each variant to it. One form of
the model each: what ``inference_precision=uniform`` serves.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from python_llm.engines.paged.runner import ForwardBatch
from python_llm.engines.paged.runners import openvino as runners
from python_llm.engines.paged.runners.openvino_options import properties
from python_llm.settings import ServingConfig
from triton_llm_client.bench.statistics import paired_ratio

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "product": {},
    "plugin": {"INFERENCE_PRECISION_HINT": None},
    "bf16": {"INFERENCE_PRECISION_HINT": "bf16"},
    "f32": {"INFERENCE_PRECISION_HINT": "f32"},
    "group0": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0},
    "group64": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 64},
    "group96": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 96},
    "group128": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 128},
    "group192": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 192},
    "group576": {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 576},
    "throughput": {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": 1},
    "no-pinning": {"ENABLE_CPU_PINNING": False},
}
_PAST, _PROMPT = 160, 128  # tokens


def step(runner: runners.OpenVinoRunner, sequences: int, past: int, count: int) -> ForwardBatch:
    """``count`` tokens for each of so many sequences that have ``past`` in the cache; the last one's logits."""
    blocks = -(-(past + count) // runner.block_size)
    begins = np.arange(sequences + 1, dtype=np.int32) * count
    return ForwardBatch(
        token_ids=np.random.default_rng(count).integers(3, runner.vocab_size, sequences * count),
        positions=np.tile(np.arange(past, past + count, dtype=np.int64), sequences),
        past_lens=np.full(sequences, past, np.int32),
        subsequence_begins=begins,
        block_indices=np.arange(sequences * blocks, dtype=np.int32),
        block_begins=np.arange(sequences + 1, dtype=np.int32) * blocks,
        wanted=begins[1:].astype(np.int64) - 1,
    )


def compile_variant(model: Path, name: str) -> runners.OpenVinoRunner:
    def told(serving: ServingConfig, quantised: bool) -> dict[str, Any]:
        changed = {**properties(serving, quantised), **VARIANTS[name]}
        return {key: value for key, value in changed.items() if value is not None}

    with patch.object(runners, "properties", told):
        return runners.OpenVinoRunner(model, ServingConfig(inference_precision="uniform"), quantised=True)


def seconds(runner: runners.OpenVinoRunner, batch: ForwardBatch) -> float:
    begun = time.perf_counter()
    runner.forward(batch)
    return time.perf_counter() - begun


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["product", "bf16", "group64"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--decode", nargs="*", type=int, default=[1, 8, 16, 32])
    parser.add_argument("--prefill", nargs="*", type=int, default=[128, 256, 2048], help="tokens of prompts of 128")
    args = parser.parse_args(argv)
    names = list(dict.fromkeys(["product", *args.variants]))
    compiled = {name: compile_variant(args.artifact / "openvino_model.xml", name) for name in names}
    shapes = {f"decode {n}": (n, _PAST, 1) for n in args.decode}
    shapes |= {f"prefill {n}": (max(1, n // _PROMPT), 0, min(n, _PROMPT)) for n in args.prefill}
    for what, shape in shapes.items():
        print(_line(what, compiled, shape, args.rounds), flush=True)
    return 0


def _line(what: str, compiled: Mapping[str, runners.OpenVinoRunner], shape: tuple[int, int, int], rounds: int) -> str:
    times: dict[str, list[float]] = {name: [] for name in compiled}
    names = list(compiled)
    repeats = 20 if shape[2] == 1 else 3
    for number in range(-1, rounds):  # the first round warms up
        for name in names if number % 2 else reversed(names):
            batch = step(compiled[name], *shape)
            took = median(seconds(compiled[name], batch) for _ in range(repeats))
            if number >= 0:
                times[name].append(took)
    parts = [f"{what}: product {1e3 * median(times['product']):.1f} ms"]
    for name in names[1:]:
        ratio = paired_ratio(times[name], times["product"])
        parts.append(f"{name} {ratio.value:.2f} ({ratio.low:.2f} .. {ratio.high:.2f})")
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
