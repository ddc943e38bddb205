"""Dry runs that are kept as texts: `python -m tests.unit.build_engines.tensorrt_llm.goldens` writes them anew."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from build_engines.builders.tensorrt_llm import BUILDER
from build_engines.spec import EngineSpec

__all__ = ["CASES", "FOLDER", "run_case"]

FOLDER = Path(__file__).parents[1] / "golden"
# The six of the issue: name of the golden -> (fixture, knobs).
CASES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama-3.1-8b-fp8-tp1": ("llama-3.1-8b", {"quant": "fp8", "gpu": "H100", "calib": "calibration.txt"}),
    "llama-3.1-70b-fp8-tp4": ("llama-3.1-70b", {"quant": "fp8", "kv_dtype": "fp8", "tp": 4, "gpu": "H100"}),
    "llama-3.1-70b-int4_awq-tp2-pp2": (
        "llama-3.1-70b",
        {"quant": "int4_awq", "tp": 2, "pp": 2, "gpus_per_node": 2, "gpu": "A100-80", "calib": "calibration.txt"},
    ),
    "mixtral-8x7b-int4": ("mixtral-8x7b", {"quant": "int4", "tp": 2, "gpu": "L40S"}),
    "qwen2.5-7b-int8": (
        "qwen2.5-7b",
        {"quant": "int8", "gpu": "A10G", "max_seq_len": 4096, "max_lora_rank": 16, "lora_modules": ("attn_qkv",)},
    ),
    "gpt-neox-20b-int8_wo": ("gpt-neox-20b", {"quant": "int8_wo", "tp": 2, "gpu": "A100-40", "log_probs": "output"}),
}


def run_case(name: str) -> tuple[str, dict[str, Any]]:
    """The dry run's text and record, of relative paths."""
    fixture, knobs = CASES[name]
    with _inside(FOLDER):
        run = BUILDER.dry_run(EngineSpec(model=fixture, engine="tensorrt_llm", **knobs), Path("engines"))
        return f"{run}\n", run.to_record()


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    os.environ["PATH"] = ""  # no GPU is visible
    for case in CASES:
        text, record = run_case(case)
        (FOLDER / f"{case}.txt").write_text(text, "utf-8")
        (FOLDER / f"{case}.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
