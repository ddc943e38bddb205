"""One measured load on one subject, and sweeps of rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from triton_llm_client.bench.arrivals import poisson_starts
from triton_llm_client.bench.latency import Figures, Slo, figures_of
from triton_llm_client.bench.load import BenchPrompt, Load, Subject
from triton_llm_client.bench.window import Window

__all__ = ["Measured", "highest_rate", "knee", "measure_load", "open_load", "sweep"]

_KEPT_SHARE = 0.95  # of a rate's requests must keep the SLO, for the rate to count as within it
_KNEE_TIMES = 2.0  # the median latency of the lowest rate: a rate beyond that is beyond the knee


@dataclass(frozen=True)
class Measured:
    """``rate``: requests a second that came, or None of a closed loop with ``in_flight``."""

    rate: float | None
    in_flight: int
    figures: Figures
    machine: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "in_flight": self.in_flight,
            **self.figures.as_dict(),
            "machine": self.machine,
        }


def measure_load(subject: Subject, load: Load, slo: Slo, window: Window, rate: float | None = None) -> Measured:
    with window:
        outcome = subject.run(load)
    return Measured(rate, load.in_flight, figures_of(outcome, slo), window.told())


def sweep(
    subject: Subject,
    rates: Sequence[float],
    load_of: Callable[[float], Load],
    slo: Slo,
    window_of: Callable[[], Window],
    say: Callable[[str], None],
) -> list[Measured]:
    """Each rate in turn, the lowest first; ends after the first that is not answered to half."""
    found: list[Measured] = []
    for rate in sorted(rates):
        found.append(measure_load(subject, load_of(rate), slo, window_of(), rate))
        figures = found[-1].figures
        say(f"{rate:g} requests/s: {figures.requests_per_second:.2f} answered, {figures.kept_share:.0%} within the SLO")
        if figures.kept_share == 0 and figures.requests_per_second < rate / 2:
            break
    return found


def open_load(prompts: tuple[BenchPrompt, ...], output_tokens: int, rate: float, seed: str) -> Load:
    """The prompts at a mean rate; a request that fails counts as one that failed."""
    starts = poisson_starts(rate, len(prompts), f"{seed}/{rate}")
    return Load(prompts, len(prompts), output_tokens, starts, tolerant=True)


def highest_rate(measured: Sequence[Measured]) -> float | None:
    """The highest rate below which every measured one kept the SLO; None where the lowest did not."""
    best = None
    for one in measured:
        if one.figures.kept_share < _KEPT_SHARE:
            break
        best = one.rate
    return best


def knee(measured: Sequence[Measured]) -> float | None:
    """The highest rate up to which the median latency is at most twice that of the lowest; then requests pile up."""
    best, bound = None, None
    for one in measured:
        total = one.figures.total
        if total is None or (bound is not None and total.p50 > bound):
            break
        bound = bound or _KNEE_TIMES * total.p50
        best = one.rate
    return best
