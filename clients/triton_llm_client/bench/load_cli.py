"""``triton-llm bench load``: one subject under one load, closed or open, or a sweep of rates."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from python_llm.contract import generator_model
from python_llm.errors import CallerMistake
from triton_llm_client.bench.environment import environment
from triton_llm_client.bench.latency import Slo
from triton_llm_client.bench.load import BenchPrompt, Load
from triton_llm_client.bench.load_table import load_table
from triton_llm_client.bench.options import add_setting, setting_of
from triton_llm_client.bench.prompt_sets import PROMPT_SETS, Wanted, prompt_set
from triton_llm_client.bench.runs import Measured, highest_rate, knee, measure_load, open_load, sweep
from triton_llm_client.bench.servers import with_server
from triton_llm_client.bench.subjects import SUBJECTS, Absent, Setting
from triton_llm_client.bench.window import Window

__all__ = ["add_arguments", "run"]

_PROMISES = {"first": "time to first token", "token": "mean time of a token after it", "total": "end to end"}
_TAKE_IDS = frozenset({"engine", "genai", "transformers", "transformers-batching"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_setting(parser)
    parser.add_argument("--subject", choices=sorted(SUBJECTS), default="served", help="(default: %(default)s)")
    parser.add_argument(
        "--prompts", default="random", metavar="SET|FILE", help=f"{', '.join(PROMPT_SETS)}, or a JSONL file (random)"
    )
    parser.add_argument("--prompt-tokens", type=int, default=128, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--output-tokens", type=int, default=64, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--requests", type=int, default=32, metavar="N", help="of each load (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=4, metavar="N", help="requests before (default: %(default)s)")
    parser.add_argument("--seed", default="0", help="of prompts and arrivals (default: %(default)s)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--in-flight", type=int, default=8, metavar="N", help="closed loop (default: %(default)s)")
    how.add_argument(
        "--rate", nargs="+", type=float, metavar="R", help="open loop: requests a second, Poisson; several are a sweep"
    )
    for name, what in (
        ("first", "time to first token"),
        ("token", "mean time of a token after it"),
        ("total", "end to end"),
    ):
        parser.add_argument(f"--slo-{name}-ms", type=float, metavar="MS", help=f"a good request's {what}, at most")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the JSON to FILE as well")


def run(args: argparse.Namespace) -> int:
    """Measure and print; requests that fail are counted by reason."""
    _check(args)
    setting = setting_of(args)
    with with_server(setting, [args.subject]) as known:
        measured = _measure(args, known)
    text = json.dumps(_record(args, measured), indent=2)
    if args.output:
        args.output.write_text(text + "\n", "utf-8")
    print(text if args.json else "\n".join(load_table(measured, highest_rate(measured), knee(measured))))
    return 0


def _measure(args: argparse.Namespace, setting: Setting) -> list[Measured]:
    try:
        subject = SUBJECTS[args.subject].open(setting)
    except Absent as reason:
        raise CallerMistake(str(reason)) from reason
    slo = Slo(*(None if ms is None else ms / 1e3 for ms in (args.slo_first_ms, args.slo_token_ms, args.slo_total_ms)))

    def window() -> Window:
        return Window(setting.metrics_url, generator_model(setting.model))

    def load_of(rate: float) -> Load:
        return open_load(
            _prompts(args, setting, f"{args.seed}/{rate}", args.requests), args.output_tokens, rate, args.seed
        )

    with closing(subject):
        if args.warm_up:
            warm = _prompts(args, setting, f"{args.seed}/warm-up", args.warm_up)
            subject.run(Load(warm, args.warm_up, args.output_tokens))
        if args.rate:
            return sweep(subject, args.rate, load_of, slo, window, _say)
        prompts = _prompts(args, setting, args.seed, args.requests)
        load = Load(prompts, args.in_flight, args.output_tokens, tolerant=True)
        return [measure_load(subject, load, slo, window())]


def _prompts(args: argparse.Namespace, setting: Setting, seed: str, count: int) -> tuple[BenchPrompt, ...]:
    prompts = prompt_set(args.prompts, Wanted(count, args.prompt_tokens, seed, setting.words()))
    if args.subject not in _TAKE_IDS:
        return prompts
    tokenizer = Tokenizer.from_file(str(setting.artifact / "tokenizer.json"))
    return tuple(tuple(tokenizer.encode(one).ids) if isinstance(one, str) else one for one in prompts)


def _record(args: argparse.Namespace, measured: Sequence[Measured]) -> dict[str, Any]:
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    return {
        "schema": 2,
        "kind": "load",
        "environment": environment(),
        "subject": args.subject,
        "asked": {name: value for name, value in asked.items() if value is not None},
        "measured": [one.as_dict() for one in measured],
        "highest_rate_within_slo": highest_rate(measured),
        "knee": knee(measured),
    }


def _check(args: argparse.Namespace) -> None:
    for name in ("prompt_tokens", "output_tokens", "requests", "in_flight"):
        if getattr(args, name) < 1:
            raise CallerMistake(f"--{name.replace('_', '-')} {getattr(args, name)}: it must be at least 1.")
    if args.warm_up < 0:
        raise CallerMistake(f"--warm-up {args.warm_up}: it must be at least 0.")
    if args.rate and min(args.rate) <= 0:
        raise CallerMistake(f"--rate {min(args.rate):g}: it must be above 0.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
