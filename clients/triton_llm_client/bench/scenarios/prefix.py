"""The second of two requests that share a prefix."""

from __future__ import annotations

from collections.abc import Callable

from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.scenarios.asking import ask, opened
from triton_llm_client.bench.statistics import paired_ratio
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_SHARED, _OWN = 512, 32


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    vocabulary = setting.vocabulary()
    first: list[float] = []
    second: list[float] = []
    with opened(setting) as engine:
        for number in range(rounds + 1):
            (shared,) = random_prompts(1, _SHARED, seed=f"shared-{number}", vocabulary=vocabulary)
            own = random_prompts(2, _OWN, seed=f"own-{number}", vocabulary=vocabulary)
            begin, again = (ask(engine, [shared + tail], 2)[0].first for tail in own)
            if number:  # the first round warms up
                first.append(begin)
                second.append(again)
        say(f"TTFT: {min(first):.3f} s the first time, {min(second):.3f} s the second")
    return Figure(
        "TTFT of the second request with a shared 512-token prefix / first",
        paired_ratio(second, first),
        0.15,
        at_most=True,
    )
