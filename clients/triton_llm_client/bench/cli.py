"""``triton-llm bench``: the engine, its peer and the server side by side, in turns."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from python_llm.errors import CallerMistake
from triton_llm_client.aio import DEFAULT_MODEL
from triton_llm_client.bench import load_cli, perf_analyzer
from triton_llm_client.bench.idle import idle_cpu
from triton_llm_client.bench.load import Subject
from triton_llm_client.bench.report import Report
from triton_llm_client.bench.rounds import Plan, run_rounds
from triton_llm_client.bench.scenarios import cli as scenarios
from triton_llm_client.bench.subjects import DEFAULT_SUBJECTS, SUBJECTS, Absent, Setting

__all__ = ["add_arguments", "bench", "run"]

_TOOLS = {"load": load_cli.run, "perf-analyzer": perf_analyzer.run, "scenario": scenarios.run}
_QUICK_SECONDS = 210.0
_FULL_SECONDS = 1200.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tools = parser.add_subparsers(dest="tool_name", metavar="|".join(_TOOLS), help="something else instead")
    load_cli.add_arguments(tools.add_parser("load", help="one subject under one load, closed or open; sweeps"))
    perf_analyzer.add_arguments(tools.add_parser("perf-analyzer", help="measure a running server's three routes"))
    scenarios.add_arguments(tools.add_parser("scenario", help="fairness, prefixes, copies, short among long"))
    plan = Plan()
    levels = " ".join(map(str, plan.in_flight))
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about five minutes on two cores")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="served name (default: %(default)s)")
    parser.add_argument("--artifact", type=Path, help="the engine artifact (default: engines/MODEL)")
    parser.add_argument("--url", help="measure the server at this gRPC address (default: start one)")
    parser.add_argument(
        "--subjects",
        nargs="+",
        choices=sorted(SUBJECTS),
        default=list(DEFAULT_SUBJECTS),
        help="who takes part (default: engine, genai, served)",
    )
    parser.add_argument(
        "--in-flight", nargs="+", type=int, default=list(plan.in_flight), metavar="N", help=f"(default: {levels})"
    )
    for name in ("prompt_tokens", "output_tokens"):
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=getattr(plan, name), metavar="N", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, metavar="N", help="most rounds (default: what the time allows)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the JSON to FILE as well")


def run(args: argparse.Namespace) -> int:
    """Measure and print; a missed target is a result, not a failure."""
    if args.tool_name:
        return _TOOLS[args.tool_name](args)
    setting = Setting(args.artifact or Path("engines") / args.model, args.model, args.url)
    report = bench(setting, _plan(args, setting.vocabulary()), args.subjects)
    if args.output:
        args.output.write_text(report.to_json() + "\n", "utf-8")
    print(report.to_json() if args.json else report.table())
    return 0


def bench(setting: Setting, plan: Plan, names: list[str]) -> Report:
    """Open the subjects, run the rounds, close the subjects.

    Raises:
        CallerMistake: no subject can take part.
        ServeError: a subject failed.
    """
    with ExitStack() as stack:
        subjects: list[Subject] = []
        absent: dict[str, str] = {}
        for name in names:
            _say(f"opening {name}")
            try:
                subjects.append(SUBJECTS[name].open(setting))
                stack.callback(subjects[-1].close)
            except Absent as reason:
                absent[name] = str(reason)
        if not subjects:
            raise CallerMistake(f"subjects {', '.join(names)}: none can take part: {'; '.join(absent.values())}")
        results = run_rounds(subjects, plan, _say)
        flags = {subject.name: subject.flags for subject in subjects}
        return Report(plan, results, flags, absent, idle_cpu())


def _plan(args: argparse.Namespace, vocabulary: int) -> Plan:
    for name in ("prompt_tokens", "output_tokens", "rounds"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise CallerMistake(f"--{name.replace('_', '-')} {value}: it must be at least 1.")
    if min(args.in_flight) < 1:
        raise CallerMistake(f"--in-flight {min(args.in_flight)}: it must be at least 1.")
    rounds = args.rounds or (8 if args.quick else 20)
    return Plan(
        in_flight=tuple(sorted(set(args.in_flight))),
        prompt_tokens=args.prompt_tokens,
        output_tokens=args.output_tokens,
        vocabulary=vocabulary,
        rounds=rounds,
        least_rounds=min(rounds, 2),
        seconds=_QUICK_SECONDS if args.quick else _FULL_SECONDS,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
