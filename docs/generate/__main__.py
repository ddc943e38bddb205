"""Write the pages."""

from __future__ import annotations

from docs.generate import DOCS, PAGES

for name, render in PAGES.items():
    (DOCS / name).write_text(render(), "utf-8")
