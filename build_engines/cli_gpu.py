"""The flags of ``triton-llm build`` that only engines for GPUs have."""

from __future__ import annotations

import argparse
from typing import Any

from build_engines.spec_gpu import FORMS, GPU_KNOBS, KV_DTYPES, LOG_PROBS, SPECULATIVE

__all__ = ["add_gpu_arguments", "gpu_knobs"]


def add_gpu_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engines for GPUs (tensorrt_llm)")
    group.add_argument("--form", default="", help=f"{', '.join(FORMS)} (default: what the source is)")
    group.add_argument("--tp", type=int, default=1, help="GPUs that share each layer (default: 1)")
    group.add_argument("--pp", type=int, default=1, help="groups of GPUs that share the layers (default: 1)")
    group.add_argument("--kv-dtype", default="auto", help=f"of the KV cache: {', '.join(KV_DTYPES)} (default: auto)")
    group.add_argument("--calib", default="", help="a local text file to calibrate with (default: cnn_dailymail)")
    group.add_argument("--gpu", default="", help="the kind it will run on, for the checks where none is seen")
    group.add_argument("--gpus-per-node", type=int, default=8, help="GPUs of one machine (default: 8)")
    group.add_argument("--max-beam-width", type=int, default=1, help="beams it is built for (default: 1)")
    group.add_argument("--max-lora-rank", type=int, default=0, help="LoRA rank it is built for (default: none)")
    group.add_argument("--lora-module", action="append", default=[], dest="lora_modules", help="a module with LoRA")
    group.add_argument("--speculative", default="none", help=f"{', '.join(SPECULATIVE)} (default: none)")
    group.add_argument("--max-draft-len", type=int, default=0, help="draft tokens it is built for")
    group.add_argument("--log-probs", default="none", help=f"logits it keeps: {', '.join(LOG_PROBS)} (default: none)")
    group.add_argument("--plugin", action="append", default=[], dest="plugins", help="OPTION=VALUE of the library's")


def gpu_knobs(args: argparse.Namespace) -> dict[str, Any]:
    """The knobs as EngineSpec takes them."""
    return {name: tuple(value) if isinstance(value := getattr(args, name), list) else value for name in GPU_KNOBS}
