"""What changed between two runs: ratios of paired rounds, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_llm_client.bench.plots import Record
from triton_llm_client.bench.statistics import Interval, paired_ratio

__all__ = ["Change", "changes"]

_CELL_FIGURES = {
    "tokens_per_second": ("tokens/s", True),
    "ttft_median": ("time to first token", False),
    "gap_median": ("time between tokens", False),
}


@dataclass(frozen=True)
class Change:
    """B over A. ``more_is_better``: None where neither is."""

    name: str
    ratio: Interval
    more_is_better: bool | None

    @property
    def verdict(self) -> str:
        """better, worse, or no change that can be told from noise."""
        if self.ratio.low <= 1.0 <= self.ratio.high:
            return "no change beyond noise"
        grew = self.ratio.value > 1.0
        if self.more_is_better is None:
            return "changed"
        return "better" if grew == self.more_is_better else "worse"


def changes(before: Record, after: Record) -> list[Change]:
    """Of every cell that both runs have, round by round: the rounds of two runs had the same prompts.

    Where one run was on a busier machine everything differs: the figures, which are ratios within a run, then say more;
    their change is taken from the intervals alone, as if the two were independent.
    """
    return [*_cells(before, after), *_figures(before, after)]


def _cells(before: Record, after: Record) -> Iterator[Change]:
    others = {(cell["subject"], cell["in_flight"]): cell for cell in before["cells"]}
    for cell in after["cells"]:
        other = others.get((cell["subject"], cell["in_flight"]))
        for key, (name, more) in _CELL_FIGURES.items():
            pairs = _pairs(other[key], cell[key]) if other else []
            if pairs:
                ratio = paired_ratio([new for _, new in pairs], [old for old, _ in pairs])
                yield Change(f"{cell['subject']}, {cell['in_flight']} in flight: {name}", ratio, more)


def _pairs(old: Sequence[float | None], new: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(old, new, strict=False) if a and b]


def _figures(before: Record, after: Record) -> Iterator[Change]:
    others = {figure["name"]: figure for figure in before["figures"]}
    for figure in after["figures"]:
        if (other := others.get(figure["name"])) and other["ratio"]["value"] > 0:
            more = None if figure["most"] is not None else not figure["at_most"]
            yield Change(figure["name"], _quotient(figure["ratio"], other["ratio"]), more)


def _quotient(new: Any, old: Any) -> Interval:
    """Half-widths of independent figures add up in squares."""
    value = new["value"] / old["value"]
    low = ((1 - new["low"] / new["value"]) ** 2 + (old["high"] / old["value"] - 1) ** 2) ** 0.5
    high = ((new["high"] / new["value"] - 1) ** 2 + (1 - old["low"] / old["value"]) ** 2) ** 0.5
    return Interval(value, value * max(0.0, 1 - low), value * (1 + high))
