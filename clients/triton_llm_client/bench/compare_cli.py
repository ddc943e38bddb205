"""``triton-llm bench compare A.json B.json``."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from triton_llm_client.bench.compare import changes
from triton_llm_client.bench.files import read_record

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="A.json")
    parser.add_argument("after", type=Path, metavar="B.json")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> int:
    found = changes(read_record(args.before), read_record(args.after))
    if args.json:
        print(json.dumps([{**asdict(one), "verdict": one.verdict} for one in found], indent=2))
        return 0
    print(f"{'B / A':<74}{'ratio':>8}{'95 % interval':>19}  verdict")
    for one in found:
        interval = f"{one.ratio.low:.3f} .. {one.ratio.high:.3f}"
        print(f"{one.name:<74}{one.ratio.value:>8.3f}{interval:>19}  {one.verdict}")
    return 0
