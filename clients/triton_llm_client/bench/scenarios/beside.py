"""A short prompt that comes while eight streams decode."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.scenarios.asking import ask, background, opened
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_PROMPT, _LONG_ANSWER = 16, 1024


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    vocabulary = setting.vocabulary()
    alone: list[float] = []
    beside: list[float] = []
    with opened(setting) as engine:
        for number in range(rounds + 1):
            short = random_prompts(2, _PROMPT, seed=f"short-{number}", vocabulary=vocabulary)
            others = cycle(random_prompts(8, _PROMPT, seed=f"long-{number}", vocabulary=vocabulary))
            quiet = ask(engine, [short[0]], 2)[0].first
            with background(engine, others, _LONG_ANSWER, in_flight=8):
                busy = ask(engine, [short[1]], 2)[0].first
            if number:  # the first round warms up
                alone.append(quiet)
                beside.append(busy)
        say(f"TTFT: {min(alone):.3f} s alone, {min(beside):.3f} s beside 8 streams")
    return Figure(
        "TTFT of a 16-token prompt beside 8 decoding streams / alone", paired_ratio(beside, alone), 3.0, at_most=True
    )
