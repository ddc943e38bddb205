"""Puts readings on Triton's metrics port, through the custom metrics of its Python backend.

Each operation is a message to Triton's process (some 16 us): a number is sent when it changed, and a distribution
sends at most so many observations a time. Beyond them it sends a fair share: each bucket's part of what was seen,
at the bucket's mean, with the remainders kept for the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from python_llm.metrics import FAMILIES, Family
from python_llm.readings import Readings

__all__ = ["MOST_OBSERVATIONS", "Publisher", "thinned"]

MOST_OBSERVATIONS = 200  # of one distribution at a time


class Publisher:
    """Holds the series of one model. Leaving them (``close``) takes them off the port."""

    def __init__(self, pb_utils: Any, labels: Mapping[str, str]) -> None:
        """``labels`` are every series'. The series of the table are there, at 0, from now on."""
        kinds = pb_utils.MetricFamily
        self._labels = labels
        self._families = {
            row.name: kinds(name=row.name, description=row.help, kind=getattr(kinds, row.kind.upper()))
            for row in FAMILIES
        }
        self._series: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._sent: dict[tuple[str, tuple[str, ...]], float] = {}
        self._owed = {row.name: np.zeros(len(row.bounds) + 1) for row in FAMILIES if row.bounds}
        for row in FAMILIES:
            for values in row.sources:
                self._at(row, values)

    def publish(self, readings: Readings) -> None:
        for row in FAMILIES:
            _SENDERS[row.kind](self, row, readings)

    def close(self) -> None:
        """A family's end is the end of its series."""
        self._series.clear()
        self._families.clear()

    def _at(self, row: Family, values: tuple[str, ...]) -> Any:
        """The series of these label values."""
        found = self._series.get((row.name, values))
        if found is None:
            labels = {**self._labels, **dict(zip(row.labels, values, strict=True))}
            buckets = {"buckets": list(row.bounds)} if row.bounds else {}
            found = self._series[row.name, values] = self._families[row.name].Metric(labels=labels, **buckets)
            self._sent[row.name, values] = 0.0
        return found

    def _set(self, row: Family, readings: Readings) -> None:
        for values, number in _numbers(row, readings):
            series = self._at(row, values)
            if number != self._sent[row.name, values]:
                series.set(number)
                self._sent[row.name, values] = number

    def _count(self, row: Family, readings: Readings) -> None:
        for values, number in _numbers(row, readings):
            series = self._at(row, values)
            grown = number - self._sent[row.name, values]
            if grown > 0:
                series.increment(grown)
                self._sent[row.name, values] = number

    def _observe(self, row: Family, readings: Readings) -> None:
        for values, source in row.sources.items():
            for value in thinned(readings.observed[source], row.bounds, self._owed[row.name]):
                self._at(row, values).observe(value)


_SENDERS = {"gauge": Publisher._set, "counter": Publisher._count, "histogram": Publisher._observe}


def _numbers(row: Family, readings: Readings) -> Iterator[tuple[tuple[str, ...], float]]:
    for values, source in row.sources.items():
        yield values, readings.numbers.get(source, 0.0)
    yield from readings.groups[row.each].items() if row.each else ()


def thinned(seen: list[float], bounds: tuple[float, ...], owed: npt.NDArray[np.float64]) -> list[float]:
    """At most about MOST_OBSERVATIONS values for those ``seen``; ``owed`` is what each bucket is short of so far."""
    if len(seen) <= MOST_OBSERVATIONS:
        return seen
    values = np.array(seen)
    places = np.searchsorted(bounds, values)  # upper bounds belong to their bucket
    counts = np.bincount(places, minlength=len(owed))
    means = np.bincount(places, values, len(owed)) / np.maximum(counts, 1)
    owed += counts * (MOST_OBSERVATIONS / len(seen))
    told = np.where(counts > 0, np.floor(owed), 0).astype(int)
    owed -= told
    return [float(value) for value in np.repeat(means, told)]
