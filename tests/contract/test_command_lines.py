"""Every `triton-llm VERB --option` that a page shows is one that the verb takes."""

from __future__ import annotations

import argparse
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from triton_llm.cli import VERBS

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
_COMMAND = re.compile(r"\btriton-llm ([a-z][a-z-]*)([^`\n]*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_ENDS = re.compile(r"[#;|&]| -- ")  # a comment, another command, or what goes to tritonserver


@cache
def parser_of(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=verb)
    import_module(VERBS[verb].module).add_arguments(parser)
    return parser


def options_of(parser: argparse.ArgumentParser, words: list[str]) -> set[str]:
    """Those of the verb, and of the subcommands that ``words`` name."""
    taken: set[str] = set()
    for action in parser._actions:
        taken.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for name in set(words) & set(action.choices):
                taken |= options_of(action.choices[name], words)
    return taken


def unknown(text: str) -> list[str]:
    found = []
    for command in _COMMAND.finditer(text.replace("\\\n", " ")):
        verb, rest = command[1], _ENDS.split(command[2])[0]
        if verb not in VERBS:
            found.append(command[0])
            continue
        taken = options_of(parser_of(verb), rest.split())
        found += [f"{command[0]}: {option}" for option in _OPTION.findall(rest) if option not in taken]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_exist(page: Path) -> None:
    assert not unknown(page.read_text())


@pytest.mark.parametrize(
    "text",
    ["triton-llm serv --model x", "`triton-llm serve --modle x`", "triton-llm bench load \\\n  --never-was 1"],
)
def test_one_that_does_not_exist_is_found(text: str) -> None:
    assert unknown(text)
