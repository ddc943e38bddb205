"""The pictures of a report, as SVG, out of its record."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

__all__ = ["PLOTS", "Record", "draw"]

Record = Mapping[str, Any]


def draw(record: Record) -> dict[str, str]:
    """Name -> SVG of every plot that the record has the figures for."""
    return {name: svg for name, plot in PLOTS.items() if (svg := _svg(plot, record)) is not None}


def throughput(record: Record, axes: Any) -> bool:
    """Output tokens per second against requests in flight."""
    for subject, cells in _subjects(record):
        levels = [cell["in_flight"] for cell in cells]
        axes.plot(levels, [median(cell["tokens_per_second"]) for cell in cells], marker="o", label=subject)
    axes.set(xscale="log", yscale="log", xlabel="requests in flight", ylabel="output tokens/s (median of the rounds)")
    return bool(record["cells"])


def first_token(record: Record, axes: Any) -> bool:
    """How the times to the first token are distributed, alone and at the highest level."""
    return _distribution(record, axes, "time to first token, ms", _first_times)


def between_tokens(record: Record, axes: Any) -> bool:
    """How the times between tokens are distributed."""
    return _distribution(record, axes, "time between tokens, ms", lambda cell: cell["gap_quantiles"])


def latency(record: Record, axes: Any) -> bool:
    """Latency against the rate of arrivals, with the promise."""
    swept = record.get("sweep")
    if not swept:
        return False
    measured = [one for one in swept["measured"] if one["first_token"]]
    rates = [one["rate"] for one in measured]
    for mark in ("p50", "p99"):
        axes.plot(rates, [1e3 * one["first_token"][mark] for one in measured], marker="o", label=f"first token, {mark}")
        axes.plot(rates, [1e3 * one["total"][mark] for one in measured], marker="s", label=f"end to end, {mark}")
    if swept["slo"]["first"]:
        axes.axhline(1e3 * swept["slo"]["first"], linestyle="--", color="grey", label="SLO of the first token")
    axes.set(yscale="log", xlabel=f"requests/s that come ({swept['subject']}, Poisson)", ylabel="ms")
    return bool(measured)


def cost(record: Record, axes: Any) -> bool:
    """What a million output tokens cost at the machine's hourly price."""
    price = record.get("price_per_hour")
    if not price:
        return False
    for subject, cells in _subjects(record):
        levels = [cell["in_flight"] for cell in cells]
        costs = [price / 3600 / median(cell["tokens_per_second"]) * 1e6 for cell in cells]
        axes.plot(levels, costs, marker="o", label=subject)
    axes.set(
        xscale="log", yscale="log", xlabel="requests in flight", ylabel=f"per million tokens, at {price:g} an hour"
    )
    return bool(record["cells"])


PLOTS: Mapping[str, Callable[[Record, Any], bool]] = {
    "throughput": throughput,
    "first_token": first_token,
    "between_tokens": between_tokens,
    "latency": latency,
    "cost": cost,
}


def _distribution(record: Record, axes: Any, label: str, times_of: Callable[[Mapping[str, Any]], list[float]]) -> bool:
    drawn = False
    for subject, cells in _subjects(record):
        for cell, style in zip((cells[0], cells[-1]), ("-", "--"), strict=True):
            if (times := sorted(times_of(cell))) and (style == "-" or len(cells) > 1):
                shares = [100 * (rank + 1) / len(times) for rank in range(len(times))]
                axes.plot([1e3 * time for time in times], shares, style, label=f"{subject}, {cell['in_flight']}")
                drawn = True
    axes.set(xscale="log", xlabel=label, ylabel="% of them at most")
    return drawn


def _first_times(cell: Mapping[str, Any]) -> list[float]:
    return [time for times in cell["ttft_seconds"] for time in times]


def _subjects(record: Record) -> Iterator[tuple[str, list[Any]]]:
    names = dict.fromkeys(cell["subject"] for cell in record["cells"])
    for name in names:
        cells = [cell for cell in record["cells"] if cell["subject"] == name and cell["tokens_per_second"]]
        if cells:
            yield name, sorted(cells, key=lambda cell: int(cell["in_flight"]))


def _svg(plot: Callable[[Record, Any], bool], record: Record) -> str | None:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": plot.__name__, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        if not plot(record, axes):
            return None
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=7)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
