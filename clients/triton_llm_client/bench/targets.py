"""The figures that the rounds give and what they must be; one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from triton_llm_client.bench.rounds import Results, speeds
from triton_llm_client.bench.statistics import Interval, median_interval, paired_ratio

__all__ = ["Figure", "Unmeasured", "figures", "unmeasured"]

Cell = tuple[str, int]  # subject, requests in flight
_FIRST_TOKEN_MS = 500.0


@dataclass(frozen=True)
class Figure:
    """A measured ratio beside its target: at least ``target``, or at most where ``at_most``.

    ``unit``: of figures that are no ratio. ``most``: an upper bound beside a lower one.
    """

    name: str
    ratio: Interval
    target: float
    at_most: bool = False
    unit: str = ""
    most: float | None = None

    @property
    def holds(self) -> bool:
        value = self.ratio.value
        if self.most is not None and value > self.most:
            return False
        return value <= self.target if self.at_most else value >= self.target

    @property
    def bound(self) -> str:
        if self.most is not None:
            return f"{self.target:g} .. {self.most:g}"
        return f"{'<=' if self.at_most else '>='} {self.target:g}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True)
class Unmeasured:
    """A figure that is wanted and was not taken; never a loss."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Row:
    name: str
    above: Cell
    below: Cell
    target: float

    def figure(self, results: Results) -> Figure | None:
        above, below = speeds(results, *self.above), speeds(results, *self.below)
        rounds = min(len(above), len(below))  # a peer may run in fewer; rounds are the same from the first on
        if not rounds:
            return None
        return Figure(self.name, paired_ratio(above[:rounds], below[:rounds]), self.target)


def figures(results: Results) -> list[Figure]:
    """Every figure all of whose cells were run."""
    found = [figure for row in _rows(_levels(results)) if (figure := row.figure(results))]
    return [*found, *_walls(results), *_first_token(results)]


def unmeasured(results: Results, absent: Mapping[str, str]) -> list[Unmeasured]:
    """The rows of part 5 that an absent subject leaves open."""
    return [
        Unmeasured(row.name, absent[name])
        for row in _rows(_levels(results))
        for name in dict.fromkeys((row.above[0], row.below[0]))
        if name in absent and row.figure(results) is None
    ]


def _levels(results: Results) -> list[int]:
    return sorted({in_flight for _, in_flight in results})


def _rows(levels: list[int]) -> Iterable[_Row]:
    for subject, target in (("served", 0.95), ("ensemble", 0.90), ("gateway", 0.90)):
        for n in levels:
            yield _Row(f"{subject} / in-process, {n} in flight, tokens/s", (subject, n), ("engine", n), target)
    for n in levels:
        yield _Row(f"engine / GenAI, {n} in flight, tokens/s", ("engine", n), ("genai", n), 1.0)
    yield _Row("engine: 16 in flight / 1, tokens/s", ("engine", 16), ("engine", 1), 2.5)
    for n, target in ((16, 2.0), (1, 1.0)):
        yield _Row(f"served / llama.cpp's server, {n} in flight, tokens/s", ("served", n), ("llamacpp", n), target)


def _walls(results: Results) -> Iterator[Figure]:
    """Wall time of eight requests at once against one alone: eight times the inverse ratio of the speeds."""
    for subject in ("engine", "served"):
        eight, one = speeds(results, subject, 8), speeds(results, subject, 1)
        if eight and one:
            ratio = paired_ratio([8 * speed for speed in one], eight)
            yield Figure(f"{subject}: 8 in flight / 1, wall time", ratio, 4.5, at_most=True)


def _first_token(results: Results) -> Iterator[Figure]:
    """Of single requests to a server that is idle but for them."""
    times = [1e3 * answer.ttft_seconds for outcome in results.get(("served", 1), ()) for answer in outcome.answers]
    if times:
        yield Figure(
            "served: time to first token, idle server", median_interval(times), _FIRST_TOKEN_MS, at_most=True, unit="ms"
        )
