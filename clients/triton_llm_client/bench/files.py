"""The files of a report: JSON, CSV, HTML and its plots."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from python_llm.errors import CallerMistake
from triton_llm_client.bench.page import html_page
from triton_llm_client.bench.plots import Record, draw

__all__ = ["read_record", "write_report"]

_CELL_ROUNDS = ("tokens_per_second", "ttft_median", "gap_median", "total_median")


def write_report(record: Record, folder: Path) -> Path:
    """bench.json, cells.csv, figures.csv, index.html and one SVG a plot; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    _write_csv(folder / "cells.csv", ("subject", "in_flight", "round", *_CELL_ROUNDS), _cell_rows(record))
    _write_csv(folder / "figures.csv", ("figure", "value", "low", "high", "target", "holds"), _figure_rows(record))
    plots = draw(record)
    for name, svg in plots.items():
        (folder / f"{name}.svg").write_text(svg, "utf-8")
    page = folder / "index.html"
    page.write_text(html_page(record, plots), "utf-8")
    return page


def read_record(file: Path) -> dict[str, Any]:
    """Raises CallerMistake: no file, or none that a bench wrote."""
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CallerMistake(f"bench file '{file}': {error}; give the bench.json of a run.") from error
    if not isinstance(record, dict) or record.get("kind") != "bench" or record.get("schema") != 2:
        raise CallerMistake(f"bench file '{file}': no record of a bench (schema 2); give the bench.json of a run.")
    return record


def _write_csv(file: Path, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(rows)


def _cell_rows(record: Record) -> Iterable[Iterable[Any]]:
    for cell in record["cells"]:
        for number, values in enumerate(zip(*(cell[name] for name in _CELL_ROUNDS), strict=True), 1):
            yield (cell["subject"], cell["in_flight"], number, *values)


def _figure_rows(record: Record) -> Iterable[Iterable[Any]]:
    for one in record["figures"]:
        ratio = one["ratio"]
        yield one["name"], ratio["value"], ratio["low"], ratio["high"], one["bound"], one["holds"]
    for one in record["unmeasured"]:
        yield one["name"], "", "", "", "", f"not measured: {one['reason']}"
