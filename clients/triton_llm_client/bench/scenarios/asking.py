"""Requests to an engine in this process, timed by the engine's own clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from python_llm import engine as engines
from python_llm.settings import ServingConfig
from triton_llm_client.bench.subjects import Setting

__all__ = ["Timed", "ask", "background", "opened"]

_numbers = count()


@dataclass(frozen=True)
class Timed:
    """Seconds from submission to the first token, and from there to the last."""

    first: float
    decode: float
    ids: tuple[int, ...]


class _Asked:
    """A sink, and its request's answer."""

    def __init__(self, prompt: tuple[int, ...], tokens: int, tenant: str, then: Callable[[], None]) -> None:
        self.request = engines.GenerateRequest(f"scenario-{next(_numbers)}", prompt, tokens, tenant=tenant)
        self.ids: list[int] = []
        self.end: engines.Finished | engines.Failed | None = None
        self.done = threading.Event()
        self.begin = time.monotonic_ns()
        self._then = then

    def __call__(self, event: engines.Event, /) -> None:
        if isinstance(event, engines.Tokens):
            self.ids.extend(event.ids)
        elif isinstance(event, (engines.Finished, engines.Failed)):
            self.end = event
            self.done.set()
            self._then()

    def answer(self) -> Timed:
        self.done.wait()
        if isinstance(self.end, engines.Failed):
            raise self.end.error
        assert self.end is not None
        usage = self.end.usage
        first = (usage.first_token_ns - self.begin) / 1e9
        return Timed(first, (usage.last_token_ns - usage.first_token_ns) / 1e9, tuple(self.ids))


@contextmanager
def opened(setting: Setting, serving: ServingConfig | None = None) -> Iterator[engines.Engine]:
    """The artifact's engine, closed afterwards."""
    engine = engines.load(setting.artifact, serving)
    try:
        yield engine
    finally:
        engine.close()


def ask(engine: engines.Engine, prompts: list[tuple[int, ...]], tokens: int, tenant: str = "") -> list[Timed]:
    """All at once; the answers in order. Raises ServeError where one fails."""
    asked = [_Asked(prompt, tokens, tenant, lambda: None) for prompt in prompts]
    for each in asked:
        engine.submit(each.request, each)
    return [each.answer() for each in asked]


@contextmanager
def background(
    engine: engines.Engine,
    prompts: Iterator[tuple[int, ...]],
    tokens: int,
    *,
    in_flight: int,
    tenant: str = "",
    begun: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """Keep so many requests in flight; returns when each has its first token, or ``begun()``, and ends them afterwards.

    ``prompts`` must hold one for each request that ends meanwhile.
    """
    ending = threading.Event()
    running: dict[str, _Asked] = {}

    def send() -> None:
        if not ending.is_set():
            each = _Asked(next(prompts), tokens, tenant, send)
            running[each.request.request_id] = each
            engine.submit(each.request, each)

    for _ in range(in_flight):
        send()
    try:
        first = list(running.values())
        while not (begun() if begun else all(each.ids or each.done.is_set() for each in first)):
            time.sleep(0.001 if begun else 0.01)
        yield
    finally:
        ending.set()
        for name in list(running):
            engine.cancel(name)
        for each in list(running.values()):
            each.done.wait()
