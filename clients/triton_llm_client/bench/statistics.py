"""Ratios of paired measurements, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median

__all__ = ["Interval", "median_interval", "paired_ratio"]

_RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width as a share of the value."""
        return (self.high - self.low) / 2 / self.value


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float], *, seed: int = 0) -> Interval:
    """The geometric mean of the pairs' ratios, its interval from resampling whole pairs.

    The i-th numerator and denominator come from the same round, so what slowed that round down cancels out.

    Raises:
        ValueError: no pairs, unequal counts, or a value that is not above zero.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError(f"{len(numerators)} numerators, {len(denominators)} denominators; pairs are needed.")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("a measurement is not above zero.")
    logs = [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]
    draw = Random(seed)
    means = sorted(fmean(draw.choices(logs, k=len(logs))) for _ in range(_RESAMPLES))
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
    return Interval(math.exp(fmean(logs)), math.exp(low), math.exp(high))


def median_interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """The median of single measurements, its interval from resampling them.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("no values; measurements are needed.")
    draw = Random(seed)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return Interval(median(values), medians[int(0.025 * _RESAMPLES)], medians[int(0.975 * _RESAMPLES) - 1])
