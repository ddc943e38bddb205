"""``triton-llm decide``: rank ways to serve a model by what was measured and what was judged."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from python_llm.errors import CallerMistake
from triton_llm_client.bench.decision.judged import SHIPPED, read_judged, weights_of
from triton_llm_client.bench.decision.matrix import CRITERIA, rank, tipping_weights, winners
from triton_llm_client.bench.decision.measured import candidates_of
from triton_llm_client.bench.decision.table import chart, decision_table
from triton_llm_client.bench.files import read_record

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("records", nargs="+", type=Path, metavar="BENCH.json", help="of runs; the last one counts most")
    parser.add_argument("--judged", type=Path, default=SHIPPED, metavar="FILE", help="judged criteria (default: ours)")
    parser.add_argument(
        "--weights", metavar="NAME=W,…", help=f"other weights for some of {', '.join(CRITERIA)}, e.g. cost=50,ease=10"
    )
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="write the ranking as a picture")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> int:
    said, judged = read_judged(args.judged)
    weights = weights_of({**said, **_changed(args.weights)})
    candidates, missing = candidates_of(judged, [read_record(file) for file in args.records])
    if not candidates:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise CallerMistake(f"no candidate can be ranked: {reasons}.")
    ranked = rank(candidates, weights)
    if args.chart:
        args.chart.write_text(chart(ranked), "utf-8")
    if not args.json:
        print("\n".join(decision_table(ranked, weights, missing)))
        return 0
    ranking = [
        {"name": one.candidate.name, "total": one.total, "scores": one.candidate.scores, "why": one.candidate.why}
        for one in ranked
    ]
    told = {
        "weights": weights,
        "ranking": ranking,
        "not_ranked": missing,
        "tipping_weights": tipping_weights(candidates, weights),
        "first_of_all_weights": winners(candidates),
    }
    print(json.dumps(told, indent=2))
    return 0


def _changed(text: str | None) -> dict[str, float]:
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    try:
        return {name.strip(): float(value) for name, _, value in pairs}
    except ValueError as error:
        raise CallerMistake(f"--weights '{text}': {error}; write NAME=NUMBER, separated by commas.") from error
