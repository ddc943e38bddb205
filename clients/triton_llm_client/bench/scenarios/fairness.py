"""Tenant A, two in flight, beside tenant B's long requests: as many as 64, or just two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from python_llm import engine as engines
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.scenarios.asking import ask, background, opened
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_PAIRS = 30  # requests of A, two by two, beside each load: enough that the first, who finds full steps, are not the p95
_LONG_PROMPT, _LONG_ANSWER = 512, 256
_PROMPT, _ANSWER = 128, 16


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    vocabulary = setting.vocabulary()
    many: list[float] = []
    few: list[float] = []
    with opened(setting) as engine:
        _p95(engine, vocabulary, 2, "warm")
        for number in range(rounds):
            few.append(_p95(engine, vocabulary, 2, f"few-{number}"))
            many.append(_p95(engine, vocabulary, 64, f"many-{number}"))
            say(f"A's p95 TTFT: {many[-1]:.3f} s beside 64 of B, {few[-1]:.3f} s beside 2")
    return Figure("p95 TTFT of A beside 64 long requests of B / beside 2", paired_ratio(many, few), 1.5, at_most=True)


def _p95(engine: engines.Engine, vocabulary: int, others: int, seed: str) -> float:
    def prompts() -> Iterator[tuple[int, ...]]:
        for number in count():
            yield random_prompts(1, _LONG_PROMPT, seed=f"B-{seed}-{number}", vocabulary=vocabulary)[0]

    waits: list[float] = []
    with background(engine, prompts(), _LONG_ANSWER, in_flight=others, tenant="B"):
        for number in range(_PAIRS):
            pair = random_prompts(2, _PROMPT, seed=f"A-{seed}-{number}", vocabulary=vocabulary)
            waits += [each.first for each in ask(engine, list(pair), _ANSWER, "A")]
    return sorted(waits)[int(0.95 * (len(waits) - 1))]
