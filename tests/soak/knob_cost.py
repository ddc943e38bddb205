"""What a serving knob gains or costs: tokens/s of the engine with each of its values, in turns, no server.

    .venv/bin/python tests/soak/knob_cost.py engines/smollm2 inference_precision uniform auto --in-flight 1 8 32

Ratios are to the first value.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from build_engines.repo_cli import serving_of
from python_llm import engine as engines
from python_llm.settings import ServingConfig
from triton_llm_client.bench.isolated import IsolatedSubject
from triton_llm_client.bench.load import Load
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.subjects.engine import EngineSubject


def open_engine(artifact: Path, serving: ServingConfig) -> EngineSubject:
    return EngineSubject(engines.load(artifact, serving))


def measure(
    subjects: Mapping[str, IsolatedSubject], words: int | tuple[int, ...], in_flight: int, args: argparse.Namespace
) -> str:
    """One line: tokens/s with the first value, and the ratio of each other to it."""
    rates: dict[str, list[float]] = {value: [] for value in subjects}
    for number in range(-1, args.rounds):  # the first round warms up
        count = max(2, in_flight)
        prompts = random_prompts(count, args.prompt_tokens, seed=f"{number} {in_flight}", vocabulary=words)
        for value in list(subjects) if number % 2 else reversed(list(subjects)):
            outcome = subjects[value].run(Load(prompts, in_flight, args.output_tokens if number >= 0 else 2))
            if number >= 0:
                rates[value].append(outcome.tokens_per_second)
    first, *others = subjects
    parts = [f"{in_flight} in flight: {first} {sum(rates[first]) / args.rounds:.0f} tokens/s"]
    for value in others:
        ratio = paired_ratio(rates[value], rates[first])
        parts.append(f"{value} {ratio.value:.3f} ({ratio.low:.3f} .. {ratio.high:.3f})")
    return "; ".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("knob", choices=ServingConfig.__dataclass_fields__, metavar="KNOB")
    parser.add_argument("values", nargs="+", metavar="VALUE")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 8, 16, 32])
    for name, default in {"rounds": 6, "prompt_tokens": 128, "output_tokens": 64}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    args = parser.parse_args(argv)
    with ExitStack() as stack:
        subjects = {}
        for value in args.values:
            serving = serving_of([f"{args.knob}={value}"], ServingConfig())
            subjects[value] = IsolatedSubject(open_engine, args.artifact.resolve(), serving)
            stack.callback(subjects[value].close)
        words = Setting(args.artifact, "").words()
        for in_flight in args.in_flight:
            print(measure(subjects, words, in_flight, args), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
