"""When requests come: independent of each other, at a mean rate."""

from __future__ import annotations

from random import Random

__all__ = ["poisson_starts"]


def poisson_starts(rate: float, count: int, seed: str) -> tuple[float, ...]:
    """Seconds at which ``count`` requests come, ``rate`` a second on average; the gaps are exponential.

    Raises:
        ValueError: a rate that is not above zero.
    """
    if rate <= 0:
        raise ValueError(f"rate {rate}: it must be above zero.")
    draw, now, starts = Random(seed), 0.0, []
    for _ in range(count):
        now += draw.expovariate(rate)
        starts.append(now)
    return tuple(starts)
