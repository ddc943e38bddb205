"""Calls in answers: whatever the pieces in which a text comes, the same is found in it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openai_gateway.tool_calls import FORMATS
from openai_gateway.tool_calls.events import Arguments, Called, Event, Parser, Said
from openai_gateway.tool_calls.forced import AnyFunction, OneFunction

NAMES = {"weather", "add"}
Found = tuple[str, list[tuple[str, str]]]  # text, and name and arguments of each call


def found(parser: Parser, pieces: Sequence[str]) -> Found:
    events: list[Event] = [event for piece in pieces for event in parser.push(piece)]
    events += parser.finish()
    text = "".join(event.text for event in events if isinstance(event, Said))
    calls: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, Called):
            assert event.number == len(calls)
            calls.append((event.name, ""))
        elif isinstance(event, Arguments):
            assert event.number == len(calls) - 1
            calls[-1] = (calls[-1][0], calls[-1][1] + event.text)
    return text, calls


ONE = '{"name": "weather", "arguments": {"city": "Zürich", "deep": [{"a": "}]\\"</tool_call>"}]}}'
SAME = [("weather", '{"city": "Zürich", "deep": [{"a": "}]\\"</tool_call>"}]}')]
TWO = '{"name": "add", "parameters": {}}'

ROWS: list[tuple[str, str, Found]] = [
    ("hermes", "Just text. ", ("Just text. ", [])),
    ("hermes", f"<tool_call>\n{ONE}\n</tool_call>", ("", SAME)),
    (
        "hermes",
        f"I look.\n\n<tool_call>{ONE}</tool_call>\n<tool_call>{TWO}</tool_call>\n",
        ("I look.", [*SAME, ("add", "{}")]),
    ),
    ("hermes", f"<tool_call>{ONE}</tool_call> Done.", (" Done.", SAME)),
    ("hermes", '<tool_call>{"arguments": {"x": 1}, "name": "add"}</tool_call>', ("", [("add", '{"x": 1}')])),
    ("hermes", '<tool_call>{"name": "add", "arguments": "{\\"x\\": 1}"}</tool_call>', ("", [("add", '{"x": 1}')])),
    ("hermes", '<tool_call>{"name": "add", "arguments": null}</tool_call>', ("", [("add", "{}")])),
    ("hermes", '<tool_call>{"name": "add"}</tool_call>', ("", [("add", "{}")])),
    ("hermes", '<tool_call>{"id": 7, "name": "add", "arguments": {}}', ("", [("add", "{}")])),
    ("hermes", '<tool_call>{"name": "rob"}</tool_call>', ('<tool_call>{"name": "rob"}</tool_call>', [])),
    ("hermes", "a <tool_call> b", ("a <tool_call> b", [])),
    ("hermes", "a <tool_ca", ("a <tool_ca", [])),
    ("hermes", '<tool_call>{"na', ('<tool_call>{"na', [])),
    ("hermes", '<tool_call>{"name": "add", "arguments": {"x": ', ("", [("add", '{"x": ')])),
    ("llama3", ONE, ("", SAME)),
    ("llama3", f"<|python_tag|>{ONE}; {TWO}", ("", [*SAME, ("add", "{}")])),
    ("llama3", f" {TWO}\n", ("", [("add", "{}")])),
    ("llama3", '{"answer": 42} is JSON.', ('{"answer": 42} is JSON.', [])),
    ("llama3", f"Say {ONE}", (f"Say {ONE}", [])),
    ("llama3", "  two spaces", ("  two spaces", [])),
    ("llama3", "<|python", ("<|python", [])),
    ("mistral", f"[TOOL_CALLS][{ONE}, {TWO}]", ("", [*SAME, ("add", "{}")])),
    ("mistral", f"[TOOL_CALLS] [{ONE}]", ("", SAME)),
    ("mistral", f" [{ONE},{TWO}]", ("", [*SAME, ("add", "{}")])),
    ("mistral", f"I look. [TOOL_CALLS][{ONE}]", ("I look.", SAME)),
    ("mistral", '[TOOL_CALLS]add[ARGS]{"x": {"y": 2}}', ("", [("add", '{"x": {"y": 2}}')])),
    ("mistral", '[TOOL_CALLS]add{"x": 1}[TOOL_CALLS]add{}', ("", [("add", '{"x": 1}'), ("add", "{}")])),
    ("mistral", "[TOOL_CALLS]rob{}", ("[TOOL_CALLS]rob{}", [])),
    ("mistral", "x [TOOL_CALLS]ro", ("x [TOOL_CALLS]ro", [])),
    ("mistral", '[TOOL_CALLS][{"a": 1}]', ('[TOOL_CALLS][{"a": 1}]', [])),
    ("mistral", '[{"a": 1}, 2]', ('[{"a": 1}, 2]', [])),
    ("mistral", "[1, 2]", ("[1, 2]", [])),
    ("mistral", "[", ("[", [])),
    ("mistral", "Text [with] brackets", ("Text [with] brackets", [])),
]


@pytest.mark.parametrize(("form", "text", "expected"), ROWS)
def test_what_is_found(form: str, text: str, expected: Found) -> None:
    assert found(FORMATS[form](NAMES), [text]) == expected
    assert found(FORMATS[form](NAMES), list(text)) == expected


@given(st.sampled_from(ROWS), st.lists(st.integers(0, 120), max_size=8))
def test_the_pieces_do_not_matter(row: tuple[str, str, Found], cuts: list[int]) -> None:
    form, text, expected = row
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(edges)]
    assert found(FORMATS[form](NAMES), pieces) == expected


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(FORMATS)), st.dictionaries(st.text(), _VALUES, max_size=3), st.booleans())
def test_any_arguments_come_through(form: str, arguments: dict[str, Any], ascii_only: bool) -> None:
    call = json.dumps({"name": "add", "arguments": arguments}, ensure_ascii=ascii_only)
    text = {"hermes": f"<tool_call>{call}</tool_call>", "llama3": call, "mistral": f"[TOOL_CALLS][{call}]"}[form]
    said, ((name, told),) = found(FORMATS[form](NAMES), list(text))
    assert (said, name, json.loads(told)) == ("", "add", arguments)


@given(st.sampled_from(sorted(FORMATS)), st.text(), st.lists(st.integers(0, 20), max_size=4))
def test_text_without_calls_is_kept_whole(form: str, text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(edges)]
    assert found(FORMATS[form](NAMES), pieces) == (text, [])


def test_forced_calls() -> None:
    assert found(OneFunction("add"), ['{"x"', ": 1}"]) == ("", [("add", '{"x": 1}')])
    assert found(OneFunction("add"), []) == ("", [("add", "")])
    assert found(AnyFunction(NAMES), list(ONE)) == ("", SAME)
