"""Random logits through sampler and matcher always give what the guide asks for."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from python_llm.engine import Guide, SamplingParams
from python_llm.engines.paged.grammar import GrammarCompiler, Matcher
from python_llm.engines.paged.sampler import Draw, sample
from python_llm.token_bytes import TokenBytes

VOCABULARY = 512
PADDED = VOCABULARY + 45  # a model's rows, no whole number of words
END = 2  # <|im_end|>
SPECIAL = (0, 1, 2)
PARAMS = SamplingParams(temperature=1.0)


@pytest.fixture(scope="module")
def compiler(byte_level: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(byte_level, PADDED, {END})


@pytest.fixture(scope="module")
def closing(byte_level: Tokenizer) -> np.ndarray[Any, np.dtype[np.float32]]:
    """1 for tokens that bring a text nearer to its end."""
    token_bytes = TokenBytes(byte_level)
    ends = [i == END or token_bytes[i] in (b'"', b"}", b"]", b")", b"e", b"0") for i in range(PADDED)]
    return np.array(ends, np.float32)


def bits_of(matcher: Matcher) -> set[int]:
    return {int(i) for i in np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))}


def monkey(matcher: Matcher, closing: np.ndarray[Any, np.dtype[np.float32]], seed: int, steps: int = 400) -> list[int]:
    """Ids drawn at random until the grammar ends; it wants to end the more the longer it goes on."""
    noise = np.random.default_rng(seed)
    ids: list[int] = []
    while not matcher.finished:
        assert len(ids) < steps
        logits = noise.normal(0.0, 2.0, PADDED).astype(np.float32) + closing * np.float32(0.1 * len(ids) - 3)
        (choice,) = sample(logits[None], [Draw(PARAMS, 0, len(ids), ids, mask=matcher.mask())])
        assert matcher.accept(choice.id)
        if choice.id == END:
            break
        assert choice.id not in SPECIAL
        assert choice.id < VOCABULARY
        ids.append(choice.id)
    assert matcher.finished
    return ids


def text_of(byte_level: Tokenizer, ids: list[int]) -> str:
    token_bytes = TokenBytes(byte_level)
    return b"".join(token_bytes[i] for i in ids).decode()  # strictly


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b", None]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "boolean"}, "left": {"$ref": "#/$defs/node"}},
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}


def is_person(value: Any) -> bool:
    tags = value.get("tags", [])
    return (
        set(value) <= {"name", "age", "tags"}
        and isinstance(value["name"], str)
        and len(value["name"]) <= 12
        and type(value["age"]) is int
        and 0 <= value["age"] <= 150
        and len(tags) <= 3
        and all(tag in ("a", "b", None) for tag in tags)
    )


def is_tree(value: Any) -> bool:
    return set(value) <= {"v", "left"} and type(value["v"]) is bool and ("left" not in value or is_tree(value["left"]))


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_pattern(value: Any) -> bool:
    return re.fullmatch(r"[a-z]{2,5}-\d+", value) is not None


SCHEMAS: list[tuple[Guide, Callable[[Any], bool]]] = [
    (Guide("json"), is_object),
    (Guide("json_schema", json.dumps(PERSON)), is_person),
    (Guide("json_schema", json.dumps(TREE)), is_tree),
    (Guide("json_schema", '{"type":"string","pattern":"^[a-z]{2,5}-[0-9]+$"}'), is_pattern),
    (Guide("json_schema", "true"), lambda value: True),
    (Guide("json_schema", '{"anyOf":[{"type":"null"},{"const":{"a":[1,2]}}]}'), lambda v: v in (None, {"a": [1, 2]})),
]


@pytest.mark.parametrize(("guide", "is_valid"), SCHEMAS)
def test_json_parses_and_validates(
    compiler: GrammarCompiler, byte_level: Tokenizer, closing: Any, guide: Guide, is_valid: Callable[[Any], bool]
) -> None:
    for seed in range(12):
        text = text_of(byte_level, monkey(compiler.compile(guide), closing, seed))
        value = json.loads(text)
        assert is_valid(value)
        strings_gone = re.sub(r'"(?:\\.|[^"\\])*"', "", text)
        assert not re.search(r"\s", strings_gone)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(abc|ab)*c",
        r"^\w{1,9}@[a-z]{1,9}\.(com|org)$",
        r"\d{3}-\d{4}\s?[\W\d]",
        r"[^\n]{0,20}",
        r"a/b|[/\\]x",
        "é{1,5}|日本|\U0001f600",
        r"(?i)on|no",
        "",
        "line\nbreak#hash",
    ],
)
def test_a_regex_matches_the_whole_text(
    compiler: GrammarCompiler, byte_level: Tokenizer, closing: Any, pattern: str
) -> None:
    for seed in range(12):
        text = text_of(byte_level, monkey(compiler.compile(Guide("regex", pattern)), closing, seed))
        assert re.fullmatch(pattern, text, re.ASCII)


SUMS = """
# sums and products
root ::= expr
expr ::= term (("+" | "-") term)*
term ::= factor
  | factor "*" term   # a rule may span lines
factor ::= number | "(" expr ")"
number ::= [1-9] [0-9]*
"""
LARK_SUMS = """
start: expr
expr: term (("+" | "-") term)*
term: factor | factor "*" term
factor: NUMBER | "(" expr ")"
NUMBER: /[1-9][0-9]*/
"""


@pytest.mark.parametrize("grammar", [SUMS, LARK_SUMS])
def test_a_grammar_is_followed(compiler: GrammarCompiler, byte_level: Tokenizer, closing: Any, grammar: str) -> None:
    texts = set()
    for seed in range(12):
        text = text_of(byte_level, monkey(compiler.compile(Guide("ebnf_grammar", grammar)), closing, seed))
        ast.parse(text, mode="eval")
        assert re.fullmatch(r"[0-9()+*-]+", text)
        texts.add(text)
    assert len(texts) > 6


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), stop=st.integers(0, 15), guide=st.sampled_from([guide for guide, _ in SCHEMAS[:3]]))
def test_the_mask_tells_exactly_what_is_accepted_and_forks_are_independent(
    compiler: GrammarCompiler, seed: int, stop: int, guide: Guide
) -> None:
    choose = np.random.default_rng(seed)
    matcher, replayed = compiler.compile(guide), compiler.compile(guide)
    for _ in range(stop):
        allowed = sorted(bits_of(matcher) - {END})
        if not allowed:
            break
        token_id = int(choose.choice(allowed))
        assert matcher.accept(token_id)
        assert replayed.accept(token_id)
    allowed_now = bits_of(matcher)
    assert bits_of(replayed) == allowed_now
    assert not allowed_now & {0, 1, *range(VOCABULARY, PADDED + 32)}
    for token_id in [*SPECIAL, VOCABULARY, PADDED - 1, PADDED, 10**6, -1, *choose.integers(0, VOCABULARY, 60).tolist()]:
        fork = matcher.fork()
        assert fork.accept(token_id) == (token_id in allowed_now)
        assert bits_of(matcher) == allowed_now
        if token_id not in allowed_now:
            assert bits_of(fork) == allowed_now
    assert not matcher.failure
