"""The report as one HTML file that needs nothing else: tables and plots out of a bench's record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from statistics import median

from triton_llm_client.bench.plots import PLOTS, Record

__all__ = ["html_page"]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
td,th{border-bottom:1px solid #ddd;padding:.25rem .7rem;text-align:right}
td:first-child,th:first-child{text-align:left}
.yes{color:#0a6b2d}.no{color:#b00020;font-weight:600}.open{color:#6b5900}
svg{max-width:100%;height:auto}figcaption{color:#555}small{color:#555}
"""

_TABLES = (("Output tokens/s", "tokens_per_second", 1.0), ("Time to first token, ms", "ttft_median", 1e3))


def html_page(record: Record, plots: Mapping[str, str]) -> str:
    """``plots``: name -> SVG."""
    return "".join(_page(record, plots))


def _page(record: Record, plots: Mapping[str, str]) -> Iterator[str]:
    where = record["environment"]
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Bench</title><style>{_STYLE}</style>'
    yield f"<h1>Bench</h1><p>{escape(where['cpu'])}, {where['cores']} cores, {escape(where['system'])}; "
    yield f"load before the report {where['busy']:.2f} a core; {record['seconds']:.0f} s in all.</p>"
    yield from _figures(record)
    yield from _speeds(record)
    for name, svg in plots.items():
        caption = escape((PLOTS[name].__doc__ or name).strip())
        yield f"<figure>{svg[svg.index('<svg') :]}<figcaption>{caption}</figcaption></figure>"
    yield "<h2>What ran, and with what</h2>"
    yield from _table(("subject", "flags"), record["flags"].items())
    if record["absent"]:
        yield from _table(("absent", "why"), record["absent"].items())
    yield from _table(("package", "version"), where["packages"].items())
    yield f"<p><small>Load: {escape(str(record['plan']))}</small></p></html>\n"


def _figures(record: Record) -> Iterator[str]:
    head = ("figure", "value", "95 % interval", "target", "holds")
    yield "<h2>Targets</h2><table><tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>"
    for one in record["figures"]:
        ratio, holds = one["ratio"], "yes" if one["holds"] else "no"
        yield f"<tr><td>{escape(one['name'])}</td><td>{ratio['value']:.3f}</td>"
        yield f"<td>{ratio['low']:.3f} .. {ratio['high']:.3f}</td><td>{escape(one['bound'])}</td>"
        yield f'<td class="{holds}">{holds}</td></tr>'
    for one in record["unmeasured"]:
        yield f'<tr><td>{escape(one["name"])}</td><td class="open" colspan="4">{escape(one["reason"])}</td></tr>'
    yield "</table>"


def _speeds(record: Record) -> Iterator[str]:
    levels = record["plan"]["in_flight"]
    cells = {(cell["subject"], cell["in_flight"]): cell for cell in record["cells"] if cell["tokens_per_second"]}
    for title, key, factor in _TABLES:
        yield f"<h2>{title}, median of the rounds</h2>"
        rows = []
        for subject in dict.fromkeys(name for name, _ in cells):
            found = [cells.get((subject, n)) for n in levels]
            rows.append((subject, *(f"{factor * median(cell[key]):.1f}" if cell else "" for cell in found)))
        yield from _table(("in flight", *map(str, levels)), rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
    yield "</table>"
