"""The golden manifests: `make helm-golden` writes them, a test compares parsed YAML."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.chart.render import VALUES, Rendered, render_file

__all__ = ["GOLDEN", "read_golden"]

GOLDEN = Path(__file__).parent / "golden"


def read_golden(name: str) -> Rendered:
    return Rendered(yaml.safe_load_all((GOLDEN / name).read_text("utf-8")))


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for file in VALUES:
        (GOLDEN / file.name).write_text(yaml.safe_dump_all(render_file(file), sort_keys=True, width=120), "utf-8")
