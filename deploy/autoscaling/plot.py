"""The runs as one SVG: what the load needs, and the replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from deploy.autoscaling.simulate import Run

__all__ = ["plot"]

_WIDTH, _HEIGHT, _GAP = 820, 190, 46


def plot(runs: Mapping[str, Run], tokens: float, target: float) -> str:
    """``tokens`` of a request over ``target`` tokens a second of a server: the replicas that a load needs."""
    parts = [_panel(name, run, tokens / target, place) for place, (name, run) in enumerate(runs.items())]
    height = len(parts) * (_HEIGHT + _GAP) + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _panel(name: str, run: Run, need: float, place: int) -> str:
    top = place * (_HEIGHT + _GAP) + 30
    most = max(run.peak, *(each.load * need for each in run.moments))
    last = run.moments[-1].second
    moments = run.moments[:: max(1, len(run.moments) // 700)]

    def line(values: Iterable[float], colour: str) -> str:
        points = " ".join(
            f"{60 + each.second / last * (_WIDTH - 80):.1f},{top + _HEIGHT * (1 - value / most):.1f}"
            for each, value in zip(moments, values, strict=True)
        )
        return f'<polyline fill="none" stroke="{colour}" stroke-width="1.4" points="{points}"/>'

    title = (
        f"{name}: replicas (blue), what the load needs (grey); most {run.peak}, turns {run.turns}, {last / 3600:.0f} h"
    )
    return "\n".join(
        [
            f'<text x="60" y="{top - 8}" font-size="13">{escape(title)}</text>',
            f'<rect x="60" y="{top}" width="{_WIDTH - 80}" height="{_HEIGHT}" fill="none" stroke="#ccc"/>',
            f'<text x="54" y="{top + 10}" font-size="11" text-anchor="end">{most:.0f}</text>',
            f'<text x="54" y="{top + _HEIGHT}" font-size="11" text-anchor="end">0</text>',
            line((each.load * need for each in moments), "#999"),
            line((each.replicas for each in moments), "#1f5fbf"),
        ]
    )
