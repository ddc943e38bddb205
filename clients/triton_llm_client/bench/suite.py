"""The whole bench: subjects in turns, each promise by itself, rates until the server gives in; one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from python_llm.contract import generator_model
from python_llm.errors import CallerMistake, ServeError
from triton_llm_client.bench.idle import idle_cpu
from triton_llm_client.bench.isolated import Absent
from triton_llm_client.bench.latency import Slo
from triton_llm_client.bench.load import Load, Subject
from triton_llm_client.bench.prompts import random_prompts
from triton_llm_client.bench.report import Report, Sweep
from triton_llm_client.bench.rounds import Plan, Results, run_rounds, speeds
from triton_llm_client.bench.runs import open_load, sweep
from triton_llm_client.bench.scenarios import measure
from triton_llm_client.bench.servers import with_server
from triton_llm_client.bench.subjects import PEERS, SUBJECTS, Setting
from triton_llm_client.bench.targets import Figure, Unmeasured, figures, unmeasured
from triton_llm_client.bench.window import Window

__all__ = ["Wanted", "run_suite"]

Say = Callable[[str], None]
_SLO = Slo(first=1.0, token=0.1)
_PEER_SECONDS = 240.0  # of a load; a peer that takes longer hangs
_SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the rate that the closed loops reached


@dataclass(frozen=True)
class Wanted:
    """``scenarios`` run ``pairs`` rounds each; ``sweep_seconds``: how long requests come at each rate, 0: no sweep."""

    subjects: Sequence[str]
    plan: Plan
    scenarios: Sequence[str] = ()
    pairs: int = 5
    sweep_seconds: float = 0.0
    price_per_hour: float = 0.10


@dataclass
class _Found:
    figures: list[Figure] = field(default_factory=list)
    unmeasured: list[Unmeasured] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    idle: float = 0.0


def run_suite(setting: Setting, wanted: Wanted, say: Say) -> Report:
    """Everything that is wanted; what cannot be measured here is told with its reason.

    Raises:
        CallerMistake: no subject can take part.
        ServeError: a subject failed.
    """
    started, found, results, rates = time.monotonic(), _Found(), Results(), None
    if wanted.subjects:
        with with_server(setting, wanted.subjects) as known:
            results = _rounds(known, wanted, found, say)
            rates = _rates(known, wanted, results, say)
        found.figures += figures(results)
        found.unmeasured += unmeasured(results, found.absent)
    for name in wanted.scenarios:
        _scenario(name, setting, wanted.pairs, found, say)
    return Report(
        wanted.plan,
        results,
        found.flags,
        found.absent,
        found.idle,
        figures=tuple(found.figures),
        unmeasured=tuple(found.unmeasured),
        sweep=rates,
        price_per_hour=wanted.price_per_hour,
        seconds=time.monotonic() - started,
    )


def _rounds(setting: Setting, wanted: Wanted, found: _Found, say: Say) -> Results:
    """Open the subjects, run the rounds, close the subjects."""
    with ExitStack() as stack:
        subjects: list[Subject] = []
        for name in wanted.subjects:
            say(f"opening {name}")
            try:
                subjects.append(SUBJECTS[name].open(setting, _PEER_SECONDS if name in PEERS else None))
                stack.callback(subjects[-1].close)
            except Absent as reason:
                found.absent[name] = str(reason)
                say(f"{name} is absent: {reason}")
        if not subjects:
            reasons = "; ".join(found.absent.values())
            raise CallerMistake(f"subjects {', '.join(wanted.subjects)}: none can take part: {reasons}")
        results = run_rounds(subjects, wanted.plan, say, found.absent)
        found.flags = {subject.name: subject.flags for subject in subjects}
        found.idle = idle_cpu()
        return results


def _rates(setting: Setting, wanted: Wanted, results: Results, say: Say) -> Sweep | None:
    """Latency against the rate of arrivals, at shares of what the closed loops reached."""
    reached = [speed for _, n in results for speed in speeds(results, "served", n)]
    if not wanted.sweep_seconds or not reached:
        return None
    plan = wanted.plan

    def load_of(rate: float) -> Load:
        count = max(8, round(rate * wanted.sweep_seconds))
        prompts = random_prompts(count, plan.prompt_tokens, seed=f"sweep/{rate}", vocabulary=plan.vocabulary)
        return open_load(prompts, plan.output_tokens, rate, "sweep")

    rates = [round(share * max(reached) / plan.output_tokens, 3) for share in _SHARES]
    subject = SUBJECTS["served"].open(setting)
    try:
        measured = sweep(
            subject, rates, load_of, _SLO, lambda: Window(setting.metrics_url, generator_model(setting.model)), say
        )
    finally:
        subject.close()
    return Sweep("served", _SLO, tuple(measured))


def _scenario(name: str, setting: Setting, pairs: int, found: _Found, say: Say) -> None:
    say(f"scenario {name}")
    try:
        found.figures.append(measure(name, setting, pairs, say))
    except (Absent, CallerMistake, ServeError) as reason:
        found.unmeasured.append(Unmeasured(name, str(reason)))
        say(f"{name} was not measured: {reason}")
