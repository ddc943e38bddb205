"""What bench records say of performance and cost, as scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from triton_llm_client.bench.decision.judged import JUDGED, Judged
from triton_llm_client.bench.decision.matrix import Candidate
from triton_llm_client.bench.plots import Record

__all__ = ["candidates_of"]

Cells = Mapping[int, Mapping[str, Any]]  # requests in flight -> the cell


def candidates_of(judged: Sequence[Judged], records: Sequence[Record]) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates that were measured, and why the others were not.

    Performance: half the speed, half the first token. Speed is the geometric mean, over the levels that all were
    measured at, of the tokens a second against the fastest there; the first token is the fastest's time against this
    one's at the lowest such level. Cost: the cheapest million tokens against this one's, each at its best level and
    its own price. The best has 10; half as good is 5.
    """
    cells = {one.name: found for one in judged if (found := _cells(one.subject, records))}
    missing = {one.name: _why_not(one.subject, records) for one in judged if one.name not in cells}
    levels = sorted(set.intersection(*map(set, cells.values()))) if cells else []
    if not levels:
        return [], {**missing, **dict.fromkeys(cells, "no level of requests in flight was measured for all of them")}
    prices = {one.name: one.price_per_hour or records[-1]["price_per_hour"] for one in judged}
    costs = {name: prices[name] / 3600 / max(map(_speed, of.values())) * 1e6 for name, of in cells.items()}
    return [_candidate(one, cells, costs, levels) for one in judged if one.name in cells], missing


def _candidate(one: Judged, cells: Mapping[str, Cells], costs: Mapping[str, float], levels: Sequence[int]) -> Candidate:
    mine = cells[one.name]
    speed = math.prod(_speed(mine[n]) / max(_speed(of[n]) for of in cells.values()) for n in levels) ** (
        1 / len(levels)
    )
    first = min(_first(of[levels[0]]) for of in cells.values()) / _first(mine[levels[0]])
    speeds = ", ".join(f"{_speed(mine[n]):.0f} at {n}" for n in levels)
    why = {
        "performance": f"tokens/s {speeds} in flight; first token {1e3 * _first(mine[levels[0]]):.0f} ms",
        "cost": f"{costs[one.name]:.2f} a million tokens",
        **{name: one.opinions[name].reason for name in JUDGED},
    }
    scores = {
        "performance": 5 * speed + 5 * first,
        "cost": 10 * min(costs.values()) / costs[one.name] if costs[one.name] else 10.0,
        **{name: one.opinions[name].score for name in JUDGED},
    }
    return Candidate(one.name, scores, why)


def _cells(subject: str, records: Sequence[Record]) -> dict[int, Mapping[str, Any]]:
    """Of several records the last that has the cell."""
    found: dict[int, Mapping[str, Any]] = {}
    for record in records:
        for cell in record["cells"]:
            if cell["subject"] == subject and cell["tokens_per_second"]:
                found[cell["in_flight"]] = cell
    return found


def _why_not(subject: str, records: Sequence[Record]) -> str:
    reasons = [record["absent"][subject] for record in records if subject in record["absent"]]
    return reasons[-1] if reasons else f"no record measured '{subject}'"


def _speed(cell: Mapping[str, Any]) -> float:
    return float(median(cell["tokens_per_second"]))


def _first(cell: Mapping[str, Any]) -> float:
    return float(median(cell["ttft_median"]))
