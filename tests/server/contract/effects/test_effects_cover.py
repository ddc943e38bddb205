"""No input is forgotten: each served row's name stands in a test of this folder."""

from __future__ import annotations

import ast
from pathlib import Path

from python_llm.contract import GENERATOR

# text_input and messages are prompts of the client's own forms; every_output is what the ensemble sends.
THROUGH_THE_CLIENT = {"text_input", "input_ids", "messages", "every_output", "stop"}


def test_every_served_input_is_observed() -> None:
    said: set[str] = set()
    for file in sorted(Path(__file__).parent.glob("test_effects_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg:
                said.add(node.arg)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.add(node.value)
    served = {row.name for row in GENERATOR.inputs if not row.alias_of and not row.refused}
    assert served - said - THROUGH_THE_CLIENT == set()
