"""The ratios the bench forms and what they must be; one row each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triton_llm_client.bench.rounds import Results, speeds
from triton_llm_client.bench.statistics import Interval, paired_ratio

__all__ = ["Figure", "figures"]

Cell = tuple[str, int]  # subject, requests in flight


@dataclass(frozen=True)
class Figure:
    """A measured ratio beside its target (at least ``target``, or at most where ``at_most``)."""

    name: str
    ratio: Interval
    target: float
    at_most: bool = False

    @property
    def holds(self) -> bool:
        return self.ratio.value <= self.target if self.at_most else self.ratio.value >= self.target


@dataclass(frozen=True)
class _Row:
    name: str
    above: Cell
    below: Cell
    target: float

    def figure(self, results: Results) -> Figure | None:
        above, below = speeds(results, *self.above), speeds(results, *self.below)
        return Figure(self.name, paired_ratio(above, below), self.target) if above and below else None


def figures(results: Results) -> list[Figure]:
    """Every ratio both of whose cells were run."""
    levels = sorted({in_flight for _, in_flight in results})
    found = [figure for row in _rows(levels) if (figure := row.figure(results))]
    return found + [figure for subject in ("engine", "served") if (figure := _wall(results, subject))]


def _rows(levels: Iterable[int]) -> Iterable[_Row]:
    for n in levels:
        yield _Row(f"engine / GenAI, {n} in flight, tokens/s", ("engine", n), ("genai", n), 1.0)
    for n in levels:
        yield _Row(f"served / in-process, {n} in flight, tokens/s", ("served", n), ("engine", n), 0.95)
    yield _Row("engine: 16 in flight / 1, tokens/s", ("engine", 16), ("engine", 1), 2.5)


def _wall(results: Results, subject: str) -> Figure | None:
    """Wall time of eight requests at once against one alone: eight times the inverse ratio of the speeds."""
    eight, one = speeds(results, subject, 8), speeds(results, subject, 1)
    if not eight or not one:
        return None
    ratio = paired_ratio([8 * speed for speed in one], eight)
    return Figure(f"{subject}: 8 in flight / 1, wall time", ratio, 4.5, at_most=True)
