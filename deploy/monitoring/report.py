"""Pictures of the dashboards' panels from a Prometheus, for where there is no Grafana.

``python -m deploy.monitoring.report http://localhost:9090 report.svg`` draws the last hour.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from deploy.monitoring.panels import DASHBOARDS, Dashboard, Panel

__all__ = ["Line", "draw", "fetch"]

_WIDTH, _HEIGHT, _GAP, _COLUMNS = 380, 130, 62, 3
_COLOURS = ("#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6", "#777777")
_POINTS = 120


@dataclass(frozen=True)
class Line:
    """One series of a panel. ``points``: (seconds since 1970, value), rising; what is no number is left out."""

    legend: str
    points: tuple[tuple[float, float], ...]


def fetch(url: str, panel: Panel, begin: float, end: float, model: str = ".*") -> list[Line]:
    """The panel's series between two times. Raises OSError: nobody answers, or a query is refused."""
    lines = []
    for query in panel.queries:
        wanted = {"query": query.expr.replace("$model", model), "start": begin, "end": end}
        text = urllib.parse.urlencode(wanted | {"step": max(1.0, (end - begin) / _POINTS)})
        with urllib.request.urlopen(f"{url}/api/v1/query_range?{text}", timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        lines += [Line(_legend(query.legend, row["metric"]), _points(row["values"])) for row in found]
    return lines


def draw(pages: Iterable[tuple[Dashboard, Mapping[str, list[Line]]]], begin: float, end: float) -> str:
    """One SVG. ``pages``: each dashboard with its lines by panel title; a panel without any says so."""
    parts, top = [], 10.0
    for dashboard, lines in pages:
        parts.append(f'<text x="10" y="{top + 16:.0f}" font-size="16">{escape(dashboard.title)}</text>')
        for number, panel in enumerate(dashboard.panels):
            row, column = divmod(number, _COLUMNS)
            left, place = 10 + column * (_WIDTH + 20), top + 44 + row * (_HEIGHT + _GAP)
            parts += _panel(panel, lines.get(panel.title, []), left, place, begin, end)
        top += 60 + -(-len(dashboard.panels) // _COLUMNS) * (_HEIGHT + _GAP)
    width = _COLUMNS * (_WIDTH + 20)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top:.0f}" font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _panel(panel: Panel, lines: list[Line], left: float, top: float, begin: float, end: float) -> list[str]:
    parts = [
        f'<text x="{left}" y="{top - 6}" font-size="12">{escape(panel.title)} ({escape(panel.unit)})</text>',
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#ccc"/>',
    ]
    most = max((value for line in lines for _, value in line.points), default=0.0)
    if not lines:
        parts.append(f'<text x="{left + 8}" y="{top + 20}" font-size="11" fill="#999">no series</text>')
        return parts
    parts.append(f'<text x="{left + 4}" y="{top + 12}" font-size="10" fill="#555">{most:.4g}</text>')
    for number, line in enumerate(lines[: len(_COLOURS)]):
        points = " ".join(
            f"{left + (at - begin) / (end - begin) * _WIDTH:.1f},{top + _HEIGHT * (1 - value / (most or 1.0)):.1f}"
            for at, value in line.points
        )
        colour = _COLOURS[number]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="{points}"/>')
        parts.append(
            f'<text x="{left + (number % 4) * 95}" y="{top + _HEIGHT + 13 + number // 4 * 12}" font-size="10" '
            f'fill="{colour}">{escape(line.legend[:16])}</text>'
        )
    return parts


def _points(values: Iterable[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    told = ((float(at), float(value)) for at, value in values)
    return tuple((at, value) for at, value in told if value == value and abs(value) != float("inf"))


def _legend(text: str, labels: Mapping[str, Any]) -> str:
    for name, value in labels.items():
        text = text.replace(f"{{{{{name}}}}}", str(value))
    return text.partition("{{")[0].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="Prometheus, http://host:port")
    parser.add_argument("file", type=Path, help="the picture, .svg")
    parser.add_argument("--minutes", type=float, default=60.0, help="how far back (default: 60)")
    args = parser.parse_args()
    end = time.time()
    begin = end - args.minutes * 60
    pages = [
        (dashboard, {panel.title: fetch(args.url, panel, begin, end) for panel in dashboard.panels})
        for dashboard in DASHBOARDS
    ]
    args.file.write_text(draw(pages, begin, end), "utf-8")


if __name__ == "__main__":
    main()
