"""What the bench says: a table for people, a record for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from triton_llm_client.bench.cells import cell_record
from triton_llm_client.bench.environment import environment
from triton_llm_client.bench.latency import Slo
from triton_llm_client.bench.rounds import Plan, Results, speeds
from triton_llm_client.bench.runs import Measured, highest_rate, knee
from triton_llm_client.bench.targets import Figure, Unmeasured
from triton_llm_client.bench.targets import figures as figures_of

__all__ = ["Report", "Sweep"]


@dataclass(frozen=True)
class Sweep:
    """Open loops of one subject at rising rates, and what a good request keeps."""

    subject: str
    slo: Slo
    measured: tuple[Measured, ...]

    def record(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "slo": asdict(self.slo),
            "highest_rate_within_slo": highest_rate(self.measured),
            "knee": knee(self.measured),
            "measured": [one.as_dict() for one in self.measured],
        }


@dataclass(frozen=True)
class Report:
    """The whole of one bench run.

    ``absent``: subject -> why it did not take part. ``figures`` None: those that the results give. ``seconds``: how
    long everything took; ``price_per_hour``: of this machine, in any currency.
    """

    plan: Plan
    results: Results
    flags: Mapping[str, str]
    absent: Mapping[str, str] = field(default_factory=dict)
    idle_cpu: float = 0.0  # CPU seconds a second used by all subjects together while idle
    figures: tuple[Figure, ...] | None = None
    unmeasured: tuple[Unmeasured, ...] = ()
    sweep: Sweep | None = None
    price_per_hour: float = 0.0
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        return {
            "schema": 2,
            "kind": "bench",
            "environment": environment(),
            "plan": self.plan.as_dict(),
            "flags": dict(self.flags),
            "absent": dict(self.absent),
            "idle_cpu": round(self.idle_cpu, 4),
            "seconds": round(self.seconds, 1),
            "price_per_hour": self.price_per_hour,
            "cells": [cell_record(name, n, outcomes) for (name, n), outcomes in self.results.items()],
            "figures": [
                {**asdict(one), "bound": one.bound, "holds": one.holds, "half_width": one.ratio.half_width}
                for one in self._figures()
            ],
            "unmeasured": [asdict(one) for one in self.unmeasured],
            "sweep": None if self.sweep is None else self.sweep.record(),
        }

    def to_json(self) -> str:
        return json.dumps(self.record(), indent=2)

    def table(self) -> str:
        return "\n".join([*self._head(), "", *self._speeds(), "", *self._rates(), *self._targets()])

    def _figures(self) -> tuple[Figure, ...]:
        return tuple(figures_of(self.results)) if self.figures is None else self.figures

    def _head(self) -> Iterator[str]:
        where = environment()
        load = f"{self.plan.prompt_tokens} prompt tokens, {self.plan.output_tokens} output tokens, greedy, no end token"
        yield f"{where['cpu']}, {where['cores']} cores; {load}; {self._rounds()} interleaved rounds"
        yield from (f"  {name}: {flags}" for name, flags in self.flags.items())
        yield from (f"  {name}: absent: {why}" for name, why in self.absent.items())
        if self.idle_cpu > 0.1:
            yield f"  warning: idle subjects used {self.idle_cpu:.0%} of a core; the figures suffer from it"

    def _rounds(self) -> int:
        return max((len(outcomes) for outcomes in self.results.values()), default=0)

    def _speeds(self) -> Iterator[str]:
        levels = list(self.plan.in_flight)
        yield f"{'output tokens/s, median':<32}" + "".join(f"{n:>9}" for n in levels)
        for name in self.flags:
            yield f"{name:<32}" + "".join(self._median(name, n) for n in levels)
        for name in self.flags:
            yield f"{name + ', TTFT ms':<32}" + "".join(self._ttft(name, n) for n in levels)

    def _median(self, name: str, in_flight: int) -> str:
        found = speeds(self.results, name, in_flight)
        return f"{median(found):>9.1f}" if found else f"{'-':>9}"

    def _ttft(self, name: str, in_flight: int) -> str:
        outcomes = self.results.get((name, in_flight), ())
        times = [answer.ttft_seconds for outcome in outcomes for answer in outcome.answers]
        return f"{1000 * median(times):>9.0f}" if times else f"{'-':>9}"

    def _rates(self) -> Iterator[str]:
        if self.sweep is not None:
            yield f"{'open loop, requests/s':<24}{'answered':>10}{'TTFT p50':>10}{'p99 ms':>9}{'within SLO':>12}"
            for one in self.sweep.measured:
                first = one.figures.first_token
                times = f"{1e3 * first.p50:>10.0f}{1e3 * first.p99:>9.0f}" if first else f"{'-':>10}{'-':>9}"
                answered = one.figures.requests_per_second
                yield f"{one.rate or 0.0:<24g}{answered:>10.2f}{times}{one.figures.kept_share:>12.0%}"
            yield ""

    def _targets(self) -> Iterator[str]:
        yield f"{'figure':<74}{'value':>9}{'95 % interval':>19}{'target':>14}  holds"
        yield from (_figure_line(figure) for figure in self._figures())
        yield from (f"{one.name:<74} not measured: {one.reason}" for one in self.unmeasured)


def _figure_line(figure: Figure) -> str:
    ratio = figure.ratio
    interval = f"{ratio.low:.3f} .. {ratio.high:.3f}"
    return f"{figure.name:<74}{ratio.value:>9.3f}{interval:>19}{figure.bound:>14}  {'yes' if figure.holds else 'no'}"
