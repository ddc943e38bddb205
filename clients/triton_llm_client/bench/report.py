"""What the bench says: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from triton_llm_client.bench.environment import environment
from triton_llm_client.bench.load import Outcome
from triton_llm_client.bench.rounds import Plan, Results, speeds
from triton_llm_client.bench.targets import Figure, figures

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """The whole of one bench run. ``absent``: subject -> why it did not take part."""

    plan: Plan
    results: Results
    flags: Mapping[str, str]
    absent: Mapping[str, str] = field(default_factory=dict)
    idle_cpu: float = 0.0  # CPU seconds a second used by all subjects together while idle

    def to_json(self) -> str:
        record: dict[str, Any] = {
            "schema": 1,
            "environment": environment(),
            "plan": self.plan.as_dict(),
            "flags": dict(self.flags),
            "absent": dict(self.absent),
            "idle_cpu": round(self.idle_cpu, 4),
            "cells": [_cell(name, n, outcomes) for (name, n), outcomes in self.results.items()],
            "figures": [{**asdict(figure), "holds": figure.holds} for figure in figures(self.results)],
        }
        return json.dumps(record, indent=2)

    def table(self) -> str:
        return "\n".join([*self._head(), "", *self._speeds(), "", *self._figures()])

    def _head(self) -> list[str]:
        where = environment()
        load = f"{self.plan.prompt_tokens} prompt tokens, {self.plan.output_tokens} output tokens, greedy, no end token"
        lines = [f"{where['cpu']}, {where['cores']} cores; {load}; {self._rounds()} interleaved rounds"]
        lines += [f"  {name}: {flags}" for name, flags in self.flags.items()]
        lines += [f"  {name}: absent: {why}" for name, why in self.absent.items()]
        if self.idle_cpu > 0.1:
            lines.append(f"  warning: idle subjects used {self.idle_cpu:.0%} of a core; the figures suffer from it")
        return lines

    def _rounds(self) -> int:
        return max((len(outcomes) for outcomes in self.results.values()), default=0)

    def _speeds(self) -> list[str]:
        levels = list(self.plan.in_flight)
        head = f"{'output tokens/s, median':<26}" + "".join(f"{n:>9}" for n in levels)
        rows = [f"{name:<26}" + "".join(self._median(name, n) for n in levels) for name in self.flags]
        ttft = [f"{name + ', TTFT ms':<26}" + "".join(self._ttft(name, n) for n in levels) for name in self.flags]
        return [head, *rows, *ttft]

    def _median(self, name: str, in_flight: int) -> str:
        return f"{median(speeds(self.results, name, in_flight)):>9.1f}"

    def _ttft(self, name: str, in_flight: int) -> str:
        times = [answer.ttft_seconds for outcome in self.results[name, in_flight] for answer in outcome.answers]
        return f"{1000 * median(times):>9.0f}"

    def _figures(self) -> list[str]:
        head = f"{'ratio':<46}{'value':>7}{'95 % interval':>18}{'target':>9}  holds"
        return [head, *(_figure_line(figure) for figure in figures(self.results))]


def _figure_line(figure: Figure) -> str:
    ratio = figure.ratio
    target = f"{'<=' if figure.at_most else '>='} {figure.target:g}"
    interval = f"{ratio.low:.3f} .. {ratio.high:.3f}"
    return f"{figure.name:<46}{ratio.value:>7.3f}{interval:>18}{target:>9}  {'yes' if figure.holds else 'no'}"


def _cell(name: str, in_flight: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "subject": name,
        "in_flight": in_flight,
        "seconds": [round(outcome.seconds, 4) for outcome in outcomes],
        "tokens_per_second": [round(outcome.tokens_per_second, 2) for outcome in outcomes],
        "ttft_seconds": [[round(a.ttft_seconds, 4) for a in outcome.answers] for outcome in outcomes],
        "total_seconds": [[round(a.total_seconds, 4) for a in outcome.answers] for outcome in outcomes],
    }
