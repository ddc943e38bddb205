"""What broken and hostile guides get: a reason, in bounded time, and the process goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from llguidance import LLParserLimits
from tokenizers import Tokenizer

from python_llm.engine import Guide, GuideKind
from python_llm.engines.paged import grammar
from python_llm.engines.paged.grammar import MAX_GUIDE_BYTES, GrammarCompiler
from python_llm.errors import InvalidRequest

SIZE, END = 512, 2
TAGS = {
    "type": "structural_tag",
    "structures": [{"begin": "<fn>", "schema": {"type": "object"}, "end": "</fn>"}],
    "triggers": ["<fn"],
}


@pytest.fixture(scope="module")
def compiler(byte_level: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(byte_level, SIZE, {END})


def chain(count: int) -> str:
    links = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(count)}
    return json.dumps({"$ref": "#/$defs/a0", "$defs": {**links, f"a{count}": {"type": "null"}}})


PATTERNS = [{"pattern": f"(a|b)*{chr(97 + i)}.{{{i + 5}}}"} for i in range(20)]
BROKEN: list[tuple[GuideKind, str, str, str]] = [
    ("json_schema", "not json", "guide_not_valid", "Expecting value"),
    ("json_schema", "[]", "guide_not_valid", "a JSON schema is an object"),
    ("json_schema", '{"type":"foo"}', "guide_not_valid", "foo"),
    ("json_schema", '{"not":{"type":"string"}}', "guide_not_valid", "not"),
    ("json_schema", '{"type":"array","uniqueItems":true}', "guide_not_valid", "uniqueItems"),
    ("json_schema", '{"x-guidance":{"lenient":true},"uniqueItems":true}', "guide_not_valid", "uniqueItems"),
    ("json_schema", '{"$ref":"http://example.org/x"}', "guide_not_valid", "example.org"),
    ("json_schema", '{"enum":[]}', "guide_not_valid", "Unsatisfiable"),
    ("json_schema", '{"patternProperties":{"a(":{}}}', "guide_not_valid", "unclosed group"),
    ("json_schema", '{"const":"' + "x" * (1 << 20) + '"}', "guide_too_large", str(MAX_GUIDE_BYTES)),
    ("json_schema", '{"const":"' + "日" * 100_000 + '"}', "guide_too_large", str(MAX_GUIDE_BYTES)),
    ("json_schema", '{"items":' * 20_000 + "{}" + "}" * 20_000, "guide_not_valid", ""),
    ("json_schema", '{"const":"\ud800"}', "guide_not_valid", ""),
    ("json_schema", chain(5000), "guide_not_valid", "nested too deeply"),  # it overflows the library's stack
    ("json_schema", json.dumps({"type": "string", "allOf": PATTERNS}), "guide_too_slow", "simpler"),
    ("regex", "a(", "guide_not_valid", "unclosed group"),
    ("regex", r"(a)\1", "guide_not_valid", "backreferences"),
    ("regex", "(?=a)b", "guide_not_valid", "look-around"),
    ("regex", "(" * 100_000 + ")" * 100_000, "guide_not_valid", ""),
    ("regex", "a?" * 100_000, "guide_too_slow", "simpler"),
    ("regex", "\udc80", "guide_not_valid", "half a surrogate pair"),
    ("ebnf_grammar", "", "guide_not_valid", ""),
    ("ebnf_grammar", "root ::= other", "guide_not_valid", "other"),
    ("ebnf_grammar", 'first ::= "a"', "guide_not_valid", "root"),
    ("ebnf_grammar", 'root ::= ("a"', "guide_not_valid", "')'"),
    ("ebnf_grammar", 'root ::= "a"\nroot ::= "b"', "guide_not_valid", "twice"),
    ("ebnf_grammar", 'x\nroot ::= "a"', "guide_not_valid", "before the first rule"),
    ("ebnf_grammar", 'root ::= "\\ud800"', "guide_not_valid", "no character"),
    ("ebnf_grammar", "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, "guide_not_valid", "nested too deeply"),
    ("ebnf_grammar", "start: " + "(" * 60_000 + '"a"' + ")" * 60_000, "guide_not_valid", "nested"),
    ("ebnf_grammar", "start: r0\n" + "\n".join(f"r{i}: r{i + 1}" for i in range(8000)), "guide_not_valid", ""),
    ("ebnf_grammar", 'start: "a" other', "guide_not_valid", 'unknown name: "other"'),
    ("ebnf_grammar", '%llguidance {"no_such":1}\nstart: "a"', "guide_not_valid", "no_such"),
    ("structural_tag", "{}", "guide_not_valid", "structural_tag"),
    ("structural_tag", "[" * 100_000, "guide_not_valid", "nested too deeply"),
    ("json_schema", "[" * 100_000, "guide_not_valid", "nested too deeply"),
    ("json_schema", '{"minimum":' + "9" * 5000 + "}", "guide_not_valid", "a number is too long"),
    ("json_schema", '{"$ref":"#"}', "guide_not_valid", "recursive without ever giving text"),
    ("ebnf_grammar", "root ::= root", "guide_not_valid", "recursive without ever giving text"),
    ("ebnf_grammar", 'root ::= root "a"', "guide_not_valid", "recursive without ever giving text"),
    ("regex", r"[^\s\S]", "guide_not_valid", "no text fits it"),
    ("structural_tag", json.dumps({**TAGS, "triggers": ["<g"]}), "guide_not_valid", "none of the triggers"),
    ("structural_tag", json.dumps({**TAGS, "structures": [{"begin": 1}]}), "guide_not_valid", '"begin" must be'),
    ("structural_tag", '{"type":"structural_tag","format":{"type":"any_text"}}', "guide_not_valid", "any_text"),
]


@pytest.mark.parametrize(("kind", "text", "reason", "told"), BROKEN, ids=[f"{b[0]}-{b[1][:30]!r}" for b in BROKEN])
def test_a_broken_guide_says_what_is_wrong(
    compiler: GrammarCompiler, kind: GuideKind, text: str, reason: str, told: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compiler.compile(Guide(kind, text))
    assert caught.value.reason == reason
    assert told in caught.value.text
    assert caught.value.text.startswith("guided_decoding_guide")
    assert not any(word in caught.value.text for word in ("NoExtensionBias", "recursion depth", "sys.", "codec"))
    assert len(caught.value.text) < 500
    assert compiler.compile(Guide("json")).mask().any()


def test_a_request_does_not_wear_out_the_grammar_for_others(
    byte_level: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of a compiled grammar share its lexer, whose states are bounded."""
    monkeypatch.setattr(grammar, "_LIMITS", LLParserLimits(max_lexer_states=300))
    compiler = GrammarCompiler(byte_level, SIZE, {END})
    guide = Guide("regex", "(a|b)*a(a|b){30}")
    letters = [byte_level.token_to_id(letter) for letter in "ab"]
    reached = []
    for seed in range(3):
        matcher, choose, steps = compiler.compile(guide), np.random.default_rng(seed), 0
        while matcher.mask().any() and steps < 200:
            assert matcher.accept(int(choose.choice(letters)))
            steps += 1
        assert "too many states" in matcher.failure
        assert not matcher.finished
        assert not matcher.accept(letters[0])
        assert matcher.fork().failure == matcher.failure
        reached.append(steps)
    assert min(reached) > 10


@pytest.mark.parametrize("pattern", ["(a|aa)*{1000}", "(x+x+)+y", "(.*a.*){50}", "(((a{1000}){1000}){1000}){1000}"])
def test_an_exponential_regex_is_bounded_in_every_step(compiler: GrammarCompiler, pattern: str) -> None:
    matcher = compiler.compile(Guide("regex", pattern))
    for _ in range(20):
        allowed = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
        if not len(allowed):
            assert matcher.failure
            return
        assert matcher.accept(int(allowed[0]))
        if matcher.finished:
            return
