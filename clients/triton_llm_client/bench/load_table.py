"""The figures of loads as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from triton_llm_client.bench.latency import Figures, Spread
from triton_llm_client.bench.runs import Measured

__all__ = ["load_table"]

_TIMES: Sequence[tuple[str, Callable[[Figures], Spread | None]]] = (
    ("first token", lambda figures: figures.first_token),
    ("between tokens", lambda figures: figures.between_tokens),
    ("a token, mean of a request", lambda figures: figures.per_token),
    ("end to end", lambda figures: figures.total),
    ("sent late", lambda figures: figures.late),
)


def load_table(measured: Sequence[Measured], highest: float | None, knee: float | None) -> Iterator[str]:
    for one in measured:
        yield from _one(one)
    if len(measured) > 1:
        yield f"highest rate within the SLO: {_rate(highest)}; knee: {_rate(knee)}"


def _one(one: Measured) -> Iterator[str]:
    figures = one.figures
    how = f"{one.in_flight} in flight" if one.rate is None else f"{one.rate:g} requests/s"
    failed = "; ".join(f"{count} x {reason}" for reason, count in figures.errors.items()) or "none"
    yield f"{how}: {figures.requests} requests in {figures.seconds:.1f} s, failed: {failed}"
    yield (
        f"  {figures.requests_per_second:.2f} requests/s, {figures.goodput_per_second:.2f} within the SLO "
        f"({figures.kept_share:.0%}); tokens/s: {figures.prompt_tokens_per_second:.0f} in, "
        f"{figures.output_tokens_per_second:.0f} out"
    )
    yield f"  {'ms':<28}" + "".join(f"{name:>9}" for name in ("mean", "p50", "p90", "p95", "p99", "p99.9"))
    for name, of in _TIMES:
        if (times := of(figures)) is not None:
            values = (times.mean, times.p50, times.p90, times.p95, times.p99, times.p999)
            yield f"  {name:<28}" + "".join(f"{1000 * value:>9.1f}" for value in values)
    told = ", ".join(f"{name} {_short(value)}" for name, value in one.machine.items())
    yield f"  server and machine: {told}"


def _rate(rate: float | None) -> str:
    return "none of these" if rate is None else f"{rate:g} requests/s"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
