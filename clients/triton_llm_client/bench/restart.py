"""What a KV store on disk is worth: the first token after a restart, of a prompt whose beginning is known or not.

Each round takes a fresh prefix and a fresh folder. A process starts an engine, asks a prompt that nobody knows, and
ends; a second process starts one over the same folder and asks another prompt with the same beginning. Both are the
first requests of their engines. Run it with ``python -m triton_llm_client.bench.restart``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from python_llm import engine as engines
from python_llm.settings import ServingConfig
from triton_llm_client.bench.isolated import IsolatedSubject
from triton_llm_client.bench.load import Load, PromptIds
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.report import environment
from triton_llm_client.bench.statistics import Interval, paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.subjects.engine import EngineSubject

__all__ = ["RestartReport", "main", "measure"]

_TARGET = 0.25
_DISK_BYTES = 1 << 30


@dataclass(frozen=True)
class RestartReport:
    """Seconds to the first token, round by round."""

    prefix_tokens: int
    tail_tokens: int
    cold_seconds: tuple[float, ...]
    restarted_seconds: tuple[float, ...]

    @property
    def ratio(self) -> Interval:
        return paired_ratio(self.restarted_seconds, self.cold_seconds)

    def table(self) -> str:
        where, ratio = environment(), self.ratio
        return (
            f"{where['cpu']}, {where['cores']} cores; prefix of {self.prefix_tokens} tokens, {self.tail_tokens} more; "
            f"{len(self.cold_seconds)} rounds\n"
            f"first token, cold: {1e3 * median(self.cold_seconds):.0f} ms; "
            f"after a restart: {1e3 * median(self.restarted_seconds):.0f} ms\n"
            f"ratio {ratio.value:.3f} ({ratio.low:.3f} .. {ratio.high:.3f}), target <= {_TARGET}: "
            f"{'holds' if ratio.value <= _TARGET else 'missed'}"
        )

    def to_json(self) -> str:
        record = {"schema": 1, "environment": environment(), **asdict(self), "ratio": asdict(self.ratio)}
        return json.dumps(record, indent=2)


def measure(artifact: Path, *, prefix_tokens: int = 512, tail_tokens: int = 32, rounds: int = 5) -> RestartReport:
    """Raises ServeError or CallerMistake where an engine fails to start or answer."""
    vocabulary = Setting(artifact, artifact.name).vocabulary()
    cold, restarted = [], []
    for number in range(rounds):
        (prefix,) = random_prompts(1, prefix_tokens, seed=f"{number}/prefix", vocabulary=vocabulary)
        tails = random_prompts(2, tail_tokens, seed=f"{number}/tails", vocabulary=vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            first, second = (_first_token(artifact, folder, prefix + tail) for tail in tails)
        cold.append(first)
        restarted.append(second)
    return RestartReport(prefix_tokens, tail_tokens, tuple(cold), tuple(restarted))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="triton_llm_client.bench.restart", description=__doc__.split("\n")[0])
    parser.add_argument("--artifact", type=Path, default=Path("engines/smollm2"), help="(default: %(default)s)")
    for name, default in (("prefix-tokens", 512), ("tail-tokens", 32), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    args = parser.parse_args(argv)
    report = measure(args.artifact, prefix_tokens=args.prefix_tokens, tail_tokens=args.tail_tokens, rounds=args.rounds)
    print(report.to_json() if args.json else report.table())
    return 0


def _first_token(artifact: Path, folder: str, prompt: PromptIds) -> float:
    """Seconds to the first token of an engine's first request; what it computed is in ``folder`` afterwards."""
    subject = IsolatedSubject(_open, artifact, folder)
    try:
        (answer,) = subject.run(Load((prompt,), in_flight=1, output_tokens=2)).answers
    finally:
        subject.close()
    return answer.ttft_seconds


def _open(artifact: Path, folder: str) -> EngineSubject:
    return EngineSubject(engines.load(artifact, ServingConfig(kv_disk_bytes=_DISK_BYTES, kv_disk_path=folder)))


if __name__ == "__main__":
    sys.exit(main())
