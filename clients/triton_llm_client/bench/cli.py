"""``triton-llm bench``: the engine, its peers and the server side by side, in turns, and every promise measured."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from python_llm.errors import CallerMistake
from triton_llm_client.bench import compare_cli, load_cli, perf_analyzer
from triton_llm_client.bench.files import write_report
from triton_llm_client.bench.options import add_setting, setting_of
from triton_llm_client.bench.profile.run import profile
from triton_llm_client.bench.report import Report
from triton_llm_client.bench.rounds import Plan
from triton_llm_client.bench.scenarios import OF_PART_5, SCENARIOS
from triton_llm_client.bench.scenarios import cli as scenarios
from triton_llm_client.bench.subjects import OF_A_SERVER, PEERS, SUBJECTS, Setting
from triton_llm_client.bench.suite import Wanted, run_suite

__all__ = ["add_arguments", "bench", "run"]

_TOOLS = {
    "compare": compare_cli.run,
    "load": load_cli.run,
    "perf-analyzer": perf_analyzer.run,
    "scenario": scenarios.run,
}
_QUICK_SUBJECTS = ("genai", "engine", "served")  # beside the engine stand those whose ratios to it are wanted
_SUBJECTS = (*_QUICK_SUBJECTS, "ensemble", "gateway", "llamacpp", "transformers", "transformers-batching")
_QUICK_SECONDS, _SECONDS = 210.0, 930.0  # of the rounds
_SWEEP_SECONDS = 20.0
_SLOW = {"llamacpp": 5, "transformers": 1, "transformers-batching": 1}  # rounds they take part in
_LEVELS = {
    "ensemble": (1, 8, 32),
    "gateway": (1, 8, 32),
    "llamacpp": (1, 16),
    "transformers": (1, 8),
    "transformers-batching": (1, 8),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tools = parser.add_subparsers(dest="tool_name", metavar="|".join(_TOOLS), help="something else instead")
    compare_cli.add_arguments(tools.add_parser("compare", help="what changed between two runs beyond noise"))
    load_cli.add_arguments(tools.add_parser("load", help="one subject under one load, closed or open; sweeps"))
    perf_analyzer.add_arguments(tools.add_parser("perf-analyzer", help="measure a running server's three routes"))
    scenarios.add_arguments(tools.add_parser("scenario", help="one promise by itself"))
    add_setting(parser)
    _add_plan(parser)
    parser.add_argument("--profile", action="store_true", help="where a token's time goes, and nothing else")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the JSON to FILE as well")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write JSON, CSV, HTML and plots there")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    levels = " ".join(map(str, plan.in_flight))
    parser.add_argument("--quick", action="store_true", help="rounds of engine, GenAI and server alone: five minutes")
    parser.add_argument("--subjects", nargs="*", choices=sorted(SUBJECTS), help=f"(default: {' '.join(_SUBJECTS)})")
    parser.add_argument(
        "--scenarios", nargs="*", choices=list(SCENARIOS), help=f"(default: {' '.join(OF_PART_5)}; with --quick none)"
    )
    parser.add_argument(
        "--in-flight", nargs="+", type=int, default=list(plan.in_flight), metavar="N", help=f"(default: {levels})"
    )
    for name in ("prompt_tokens", "output_tokens"):
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=getattr(plan, name), metavar="N", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, metavar="N", help="most rounds (default: 12; 8 with --quick)")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"for the rounds (default: {_SECONDS:.0f}; {_QUICK_SECONDS:.0f} with --quick)",
    )
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="rounds of a scenario (default: %(default)s)")
    parser.add_argument("--sweep-seconds", type=float, metavar="S", help="of each rate (default: 20; 0 with --quick)")
    parser.add_argument(
        "--price-per-hour", type=float, default=0.10, metavar="P", help="of this machine, for the costs (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; a missed target is a result, not a failure."""
    if args.tool_name:
        return _TOOLS[args.tool_name](args)
    setting = setting_of(args)
    wanted = _wanted(args, setting.words())
    if args.profile:
        for one in profile(setting, wanted.plan, args.pairs, _say):
            print("\n".join(one.lines()))
        return 0
    report = bench(setting, wanted)
    if args.output:
        args.output.write_text(report.to_json() + "\n", "utf-8")
    print(report.to_json() if args.json else report.table())
    if args.report:
        print(f"report: {write_report(report.record(), args.report)}", file=sys.stderr)
    return 0


def bench(setting: Setting, wanted: Wanted) -> Report:
    """See ``run_suite``; progress goes to stderr."""
    return run_suite(setting, wanted, _say)


def _wanted(args: argparse.Namespace, words: int | tuple[int, ...]) -> Wanted:
    _check(args)
    subjects = args.subjects
    if subjects is None:
        subjects = _QUICK_SUBJECTS if args.quick else _SUBJECTS
    scenarios_ = args.scenarios
    if scenarios_ is None:
        scenarios_ = () if args.quick else OF_PART_5
    sweep = (0.0 if args.quick else _SWEEP_SECONDS) if args.sweep_seconds is None else args.sweep_seconds
    return Wanted(subjects, _plan(args, words), scenarios_, args.pairs, sweep, args.price_per_hour)


def _plan(args: argparse.Namespace, words: int | tuple[int, ...]) -> Plan:
    rounds = args.rounds or (8 if args.quick else 12)
    return Plan(
        in_flight=tuple(sorted(set(args.in_flight))),
        prompt_tokens=args.prompt_tokens,
        output_tokens=args.output_tokens,
        vocabulary=words,
        rounds=rounds,
        least_rounds=min(rounds, 2),
        seconds=args.seconds or (_QUICK_SECONDS if args.quick else _SECONDS),
        levels=_LEVELS if set(args.in_flight) == set(Plan().in_flight) else {},  # levels that were asked for are run
        most_rounds=_SLOW,
        apart=OF_A_SERVER - {"served"},
        peers=PEERS,
    )


def _check(args: argparse.Namespace) -> None:
    for name in ("prompt_tokens", "output_tokens", "rounds", "pairs"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise CallerMistake(f"--{name.replace('_', '-')} {value}: it must be at least 1.")
    if min(args.in_flight) < 1:
        raise CallerMistake(f"--in-flight {min(args.in_flight)}: it must be at least 1.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
