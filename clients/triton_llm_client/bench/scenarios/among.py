"""A short prompt that comes while eight long ones are read: in how many of the engine's steps it has its token."""

from __future__ import annotations

import threading
from collections.abc import Callable

from python_llm import engine as engines
from python_llm.settings import ServingConfig
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.scenarios.asking import background, opened
from triton_llm_client.bench.statistics import median_interval
from triton_llm_client.bench.subjects import Setting
from triton_llm_client.bench.targets import Figure

__all__ = ["measure"]

_SHORT, _LONG, _COUNT = 16, 1024, 8
_STEP_TOKENS = 256


class _Waiting:
    """The short request: counts the steps that end until its first token is there, that one included."""

    def __init__(self, engine: engines.Engine, prompt: tuple[int, ...], name: str) -> None:
        self._engine = engine
        self._first = 0
        self._error: Exception | None = None
        self._done = threading.Event()
        self._begin = engine.stats().steps
        engine.submit(engines.GenerateRequest(name, prompt, 2), self)

    def __call__(self, event: engines.Event, /) -> None:
        if isinstance(event, engines.Tokens) and not self._first:
            self._first = self._engine.stats().steps + 1  # the step that tells it has not been counted yet
        elif isinstance(event, engines.Failed):
            self._error = event.error
            self._done.set()
        elif isinstance(event, engines.Finished):
            self._done.set()

    def steps(self) -> int:
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._first - self._begin


def measure(setting: Setting, rounds: int, say: Callable[[str], None]) -> Figure:
    vocabulary = setting.vocabulary()
    found: list[float] = []
    with opened(setting, ServingConfig(max_num_tokens=_STEP_TOKENS)) as engine:
        for number in range(rounds):
            (short,) = random_prompts(1, _SHORT, seed=f"short-{number}", vocabulary=vocabulary)
            long = iter(random_prompts(4 * _COUNT, _LONG, seed=f"long-{number}", vocabulary=vocabulary))
            with background(engine, long, 64, in_flight=_COUNT, begun=_reading(engine)):
                found.append(_Waiting(engine, short, f"short-{number}").steps())
    say(f"steps until the short prompt's first token: {', '.join(f'{count:g}' for count in found)}")
    return Figure(
        f"engine steps of <= {_STEP_TOKENS} tokens to the first token of 16 among 8 x 1,024 being read",
        median_interval(found),
        3.0,
        at_most=True,
        unit="steps",
    )


def _reading(engine: engines.Engine) -> Callable[[], bool]:
    """Whether the engine has made a step since now: the long prompts are being read."""
    before = engine.stats().steps
    return lambda: engine.stats().steps > before
