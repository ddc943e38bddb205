"""``python -m build_engines.perplexity``: the default model's perplexity of the shipped text, engine by engine.

Builds what is missing, reads what each build measured (its quality record), and writes the table between the marks of
docs/quality.md. PyTorch in fp32 is the source each was measured against.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from build_engines.build import build
from build_engines.errors import StorageError
from build_engines.progress import for_stream
from build_engines.quality_bounds import Quality
from build_engines.spec import DEFAULT_MODEL, EngineSpec
from python_llm.records import read_record

__all__ = ["ROWS", "Row", "main", "put_table", "table"]

BEGIN, END = "<!-- perplexity: begin -->", "<!-- perplexity: end -->"


@dataclass(frozen=True)
class Row:
    label: str
    spec: EngineSpec


ROWS = (
    Row("paged engine (OpenVINO), INT8, as served", EngineSpec(model=DEFAULT_MODEL, name=DEFAULT_MODEL)),
    Row("ONNX Runtime, fp32", EngineSpec(model=DEFAULT_MODEL, name="smollm2-scorer", role="scorer", quant="none")),
    Row("ONNX Runtime, INT8", EngineSpec(model=DEFAULT_MODEL, name="smollm2-scorer-int8", role="scorer", quant="int8")),
)


def table(found: Sequence[tuple[str, Quality]]) -> str:
    """Markdown: PyTorch first, then each engine against it."""
    source = found[-1][1].source_perplexity  # the same of all, but for rounding
    lines = [
        "| engine | perplexity | over PyTorch's | top-1 agreement | mean KL |",
        "|---|---|---|---|---|",
        f"| PyTorch (transformers), fp32 | {source:.3f} | 1 | 1 | 0 |",
    ]
    for label, quality in found:
        figures = f"{quality.perplexity:.3f} | {quality.perplexity_ratio:.4f} | {quality.agreement:.3f}"
        lines.append(f"| {label} | {figures} | {quality.kl:.6f} |")
    return "\n".join(lines)


def put_table(page: Path, text: str) -> None:
    """Put ``text`` between the marks of ``page``.

    Raises:
        StorageError: the page has no marks.
    """
    old = page.read_text("utf-8")
    head, begin, rest = old.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise StorageError(f"page '{page}': it lacks the marks '{BEGIN}' and '{END}'; put them where the table stands.")
    page.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m build_engines.perplexity", description=__doc__)
    parser.add_argument("--engines", type=Path, default=Path("engines"), help="folder of artifacts (default: engines)")
    parser.add_argument("--page", type=Path, help="put the table into this page, between its marks")
    args = parser.parse_args(arguments)
    found = []
    for row in ROWS:
        manifest = build(row.spec, args.engines, for_stream()).manifest
        measured = (manifest.quality or {}).get("measured")
        found.append((row.label, read_record(Quality, measured, f"{row.spec.name}, quality")))
    text = table(found)
    print(text)
    if args.page:
        put_table(args.page, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
