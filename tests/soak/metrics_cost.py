"""What metrics cost: tokens/s of the same artifact served with them and without, in interleaved pairs on one server.

    PYTHONPATH=tests/fakes .venv/bin/python tests/soak/metrics_cost.py engines/smollm2 --in-flight 1 16

The folder of a checkpoint in place of an artifact: the echo engine with its tokenizer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from build_engines.repository import add_entry
from echo_artifact import make_echo_artifact
from python_llm.artifact import MANIFEST
from python_llm.settings import ServingConfig
from server_under_test import ServerUnderTest, running_server
from triton_llm_client.aio import AsyncClient
from triton_llm_client.bench.load import Load, Outcome
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects.served import ServedSubject

SECONDS = {"with": 1.0, "without": 0.0}  # metrics_seconds of the two models
_VOCABULARY = 500


def measure(server: ServerUnderTest, in_flight: int, args: argparse.Namespace) -> str:
    """One line: the ratio of tokens/s with metrics to those without."""
    rates: dict[str, list[float]] = {name: [] for name in SECONDS}
    with ExitStack() as stack:
        subjects = {name: _subject(server, name) for name in SECONDS}
        for subject in subjects.values():
            stack.callback(subject.close)
        for number in range(-1, args.rounds):  # the first round warms up
            order = list(SECONDS) if number % 2 else list(reversed(SECONDS))
            for name in order:
                outcome = _run(subjects[name], in_flight, number, args)
                if number >= 0:
                    rates[name].append(outcome.tokens_per_second)
    ratio = paired_ratio(rates["with"], rates["without"])
    rate = sum(rates["with"]) / len(rates["with"])
    return f"{in_flight} in flight: {ratio.value:.3f} ({ratio.low:.3f} .. {ratio.high:.3f}), {rate:.0f} tokens/s"


def _subject(server: ServerUnderTest, name: str) -> ServedSubject:
    return ServedSubject(name, AsyncClient(server.grpc_url, model=name), "", closing=ExitStack())


def _run(subject: ServedSubject, in_flight: int, number: int, args: argparse.Namespace) -> Outcome:
    count = in_flight * args.turns
    prompts = random_prompts(count, args.prompt_tokens, seed=f"{number} {in_flight}", vocabulary=_VOCABULARY)
    return subject.run(Load(prompts, in_flight, args.output_tokens))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="an artifact, or a checkpoint for the echo engine")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 16])
    for name, default in {"rounds": 8, "turns": 1, "prompt_tokens": 64, "output_tokens": 128}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        folder, artifact = Path(scratch), args.source.resolve()
        if not (artifact / MANIFEST).is_file():
            artifact = make_echo_artifact(folder / "echo", artifact)
        for name, seconds in SECONDS.items():
            serving = ServingConfig(metrics_seconds=seconds, kv_cache_bytes=1 << 28, prefix_cache=False)
            add_entry(name, artifact, folder / "repository", serving)
        with running_server(folder / "repository", run_dir=folder / "run") as server:
            for in_flight in args.in_flight:
                print(measure(server, in_flight, args), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
