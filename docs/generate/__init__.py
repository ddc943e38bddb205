"""The pages that are made from code: `make docs` writes them, a test compares them with what stands in docs/."""

from __future__ import annotations

from pathlib import Path

from docs.generate.error_reasons import error_reasons
from docs.generate.knobs import knobs_page
from docs.generate.metrics import metrics_page
from docs.generate.tensors import tensors_page

__all__ = ["DOCS", "PAGES", "error_reasons"]

DOCS = Path(__file__).parents[1]
PAGES = {"tensors.md": tensors_page, "metrics.md": metrics_page, "knobs.md": knobs_page}
