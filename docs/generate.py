"""Writes the pages that are made from code: `make docs`. A test compares them with what stands in docs/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from python_llm.contract import ENSEMBLE, ROLES, UNARY, RoleContract, Tensor

DOCS = Path(__file__).parent
_UNARY = (
    "max_batch_size 0, one response for each request, with all of its text: the generator's rows, in shapes without a "
    "batch dimension. An output of one value is one for each sequence of the request; the lists of several sequences "
    "follow each other."
)


def tensors_page() -> str:
    """docs/tensors.md, from the contract's rows."""
    parts = [
        "# Tensors",
        "Made from `python_llm/contract.py` by `make docs`. Shapes carry a batch dimension in front: `[1,1]` for one "
        "value. Over HTTP's generate routes each input is a JSON key; a key that is no input is refused by name.",
    ]
    titles = {"tokenizer": "NAME-tokenizer", "generator": "NAME-generator", "detokenizer": "NAME-detokenizer"}
    for role in ("generator", "tokenizer", "detokenizer"):
        parts += _model(titles[role], ROLES[role])
    parts += ["## NAME-unary", _UNARY, "Inputs: " + _names(UNARY.inputs), "Outputs: " + _names(UNARY.outputs)]
    parts += ["## NAME (the ensemble)", "Inputs: " + _names(ENSEMBLE.inputs), "Outputs: " + _names(ENSEMBLE.outputs)]
    return "\n\n".join(parts) + "\n"


def _model(title: str, table: RoleContract) -> list[str]:
    kind = "decoupled" if table.decoupled else "one response for each request"
    head = f"max_batch_size {table.max_batch_size}, {kind}."
    return [f"## {title}", head, "Inputs:", _table(table.inputs), "Outputs:", _table(table.outputs)]


def _table(rows: Sequence[Tensor]) -> str:
    lines = ["| name | type | dims | meaning |", "|---|---|---|---|"]
    for row in rows:
        dims = ",".join(map(str, row.dims))
        lines.append(f"| `{row.name}` | {row.dtype} | [{dims}] | {row.meaning} |")
    return "\n".join(lines)


def _names(rows: Sequence[Tensor]) -> str:
    return ", ".join(f"`{row.name}`" for row in rows) + "."


PAGES = {"tensors.md": tensors_page}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (DOCS / name).write_text(render(), "utf-8")
