"""``triton-llm bench scenario NAME``: one promise, measured by itself."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from python_llm.errors import CallerMistake
from triton_llm_client.aio import DEFAULT_MODEL
from triton_llm_client.bench.isolated import Absent
from triton_llm_client.bench.scenarios import SCENARIOS, measure
from triton_llm_client.bench.subjects import Setting

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario", choices=[*SCENARIOS, "all"], help="; ".join(f"{n}: {t}" for n, t in SCENARIOS.items())
    )
    parser.add_argument("--artifact", type=Path, help=f"the engine artifact (default: engines/{DEFAULT_MODEL})")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="pairs to measure (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON lines")


def run(args: argparse.Namespace) -> int:
    """Measure and print; a missed target is a result, not a failure."""
    if args.rounds < 1:
        raise CallerMistake(f"--rounds {args.rounds}: it must be at least 1.")
    setting = Setting(args.artifact or Path("engines") / DEFAULT_MODEL, DEFAULT_MODEL, None)
    for name in SCENARIOS if args.scenario == "all" else (args.scenario,):
        try:
            figure = measure(name, setting, args.rounds, lambda text: print(text, file=sys.stderr, flush=True))
        except Absent as reason:
            print(f"{name}: not measured: {reason}", file=sys.stderr)
            continue
        ratio = figure.ratio
        if args.json:
            print(json.dumps({"scenario": name, **asdict(figure), "holds": figure.holds}))
        else:
            verdict = f"{figure.bound}: {'holds' if figure.holds else 'MISSED'}"
            print(f"{figure.name}: {ratio.value:.2f} ({ratio.low:.2f} .. {ratio.high:.2f}), {verdict}")
    return 0
