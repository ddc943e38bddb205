"""The texts that guides accept and refuse, the vocabularies and end tokens they serve."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from python_llm.engine import Guide
from python_llm.engines.paged.grammar import GrammarCompiler, Matcher

SIZE, END = 512, 2


@pytest.fixture(scope="module")
def compiler(byte_level: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(byte_level, SIZE, {END})


def follows(compiler: GrammarCompiler, tokenizer: Tokenizer, guide: Guide, text: str) -> bool:
    """Whether the text can be written under the guide, and ended there."""
    matcher = compiler.compile(guide)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return all(map(matcher.accept, ids)) and (matcher.finished or matcher.accept(END))


SCHEMAS = {
    "<fn=add>": {"type": "array", "items": {"type": "integer"}},
    "<fn=now>": {"type": "object", "additionalProperties": False},
}
TAGS = {
    "type": "structural_tag",
    "structures": [{"begin": begin, "schema": schema, "end": "</fn>"} for begin, schema in SCHEMAS.items()],
    "triggers": ["<fn="],
}
TRIGGERED = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<fn="],
        "tags": [
            {"begin": begin, "content": {"type": "json_schema", "json_schema": schema}, "end": "</fn>"}
            for begin, schema in SCHEMAS.items()
        ],
    },
}
CALL = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "const_string", "value": 'Say "x": '},
            {
                "type": "or",
                "elements": [
                    {"type": "regex", "pattern": "[a-c]+"},
                    {
                        "type": "tag",
                        "begin": "<t>",
                        "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
                        "end": "</t>",
                    },
                ],
            },
        ],
    },
}
FREE = ["", "plain text", "a <b>\n", "x <fn=add>[1,2]</fn> y", "<fn=now>{}</fn><fn=add>[]</fn>"]
NOT_FREE = ["<fn=sub>", "<fn=add>[1, 2]</fn>", "<fn=add>{}</fn>", "<fn=add>[1]", "<fn="]
ESCAPES = r"""root ::= "\x41\u0042\"\\\n\/" [\x41-\x43\-\]&~] [^\x00-\x60\u{7b}-\U0010ffff]"""

TEXTS: list[tuple[Guide, list[str], list[str]]] = [
    (Guide("json"), ["{}", '{"a":[1,null,{"b":"c d"}]}'], ["", "[]", "1", '{"a": 1}', "{ }", '{"a":1,\n"b":2}', "{"]),
    (Guide("json_schema", '{"enum":["x y",2]}'), ['"x y"', "2"], ["x y", "3", "2 ", " 2"]),
    (Guide("json_schema", '{"type":"array","x-guidance":{"whitespace_flexible":true}}'), ["[1,2]"], ["[1, 2]"]),
    (Guide("regex", r"(abc|ab)+"), ["ab", "abcab"], ["", "a", "abx"]),
    (Guide("ebnf_grammar", 'root ::= "a"{2,3} | b-c\nb-c ::= "z" b-c | "y"'), ["aa", "aaa", "zzy"], ["a", "z", "aaaa"]),
    (Guide("ebnf_grammar", ESCAPES), ['AB"\\\n/Bz', 'AB"\\\n/]z', 'AB"\\\n/&a', 'AB"\\\n/-b'], ['AB"\\\n/Da', "AB"]),
    (Guide("ebnf_grammar", 'root ::= [^"\\n\\]]+ # any\n'), ["a b", "[x"], ['"', "]"]),
    (Guide("ebnf_grammar", 'start: "a" x?\nx: /[0-9]/'), ["a", "a1"], ["1", "a12"]),
    (Guide("ebnf_grammar", '%llguidance {"no_forcing": false}\nstart: "ab"'), ["ab"], ["a"]),
    (Guide("structural_tag", json.dumps(TAGS)), FREE, NOT_FREE),
    (Guide("structural_tag", json.dumps(TRIGGERED)), FREE, NOT_FREE),
    (Guide("structural_tag", json.dumps(CALL)), ['Say "x": abc', 'Say "x": <t>12</t>'], ["abc", 'Say "x": <t>a</t>']),
]


@pytest.mark.parametrize(("guide", "good", "bad"), TEXTS)
def test_a_guide_takes_its_texts_and_no_others(
    compiler: GrammarCompiler, byte_level: Tokenizer, guide: Guide, good: list[str], bad: list[str]
) -> None:
    for text in good:
        assert follows(compiler, byte_level, guide, text), text
    for text in bad:
        assert not follows(compiler, byte_level, guide, text), text


def test_a_request_may_have_end_ids_of_its_own(byte_level: Tokenizer, compiler: GrammarCompiler) -> None:
    """Even an ordinary token: it ends where the grammar may end and is not text anywhere."""
    (a,) = byte_level.encode("a").ids
    own = compiler.compile(Guide("regex", "ba*"), end_ids={a, 10**6})
    (b,) = byte_level.encode("b").ids
    assert not own.accept(a)
    assert not own.accept(END)
    assert own.accept(b)
    assert own.mask()[a // 32] >> (a % 32) & 1
    assert own.accept(a)
    assert own.finished
    assert not own.mask().any()


def test_without_end_ids_the_grammar_alone_ends(byte_level: Tokenizer) -> None:
    compiler = GrammarCompiler(byte_level, SIZE, ())
    matcher = compiler.compile(Guide("regex", "ab?"))
    a, b = (byte_level.token_to_id(char) for char in "ab")
    assert matcher.accept(a)
    assert not matcher.finished
    assert matcher.accept(b)
    assert matcher.finished


@pytest.mark.parametrize("size", [300, 512, 1000])
def test_the_models_vocabulary_may_be_smaller_or_larger(byte_level: Tokenizer, size: int) -> None:
    matcher = GrammarCompiler(byte_level, size, {2}).compile(Guide("regex", "(?s).*"))
    allowed = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
    assert len(matcher.mask()) == -(-size // 32)
    assert allowed.min() == 2
    assert allowed.max() == min(size, SIZE) - 1


def test_the_tokenizer_may_be_a_file_and_is_read_when_it_is_needed(checkpoint: Path, tmp_path: Path) -> None:
    compiler = GrammarCompiler(checkpoint / "tokenizer.json", SIZE, {END})
    assert compiler.compile(Guide("json")).mask().any()
    GrammarCompiler(tmp_path / "missing.json", SIZE, {END})


def test_a_sentencepiece_vocabulary_serves_too(sentencepiece: Tokenizer) -> None:
    """The bytes are the detokenizer's: a leading space is one."""
    compiler = GrammarCompiler(sentencepiece, sentencepiece.get_vocab_size(), {2})
    guide = Guide("json_schema", '{"const":"the ab"}')
    quote, space_ab = sentencepiece.token_to_id("<0x22>"), sentencepiece.token_to_id("▁ab")
    the = [sentencepiece.token_to_id(piece) for piece in ("th", "e")]
    matcher: Matcher = compiler.compile(guide)
    assert all(map(matcher.accept, [quote, *the, space_ab, quote]))
    assert matcher.finished
    assert not compiler.compile(guide).accept(space_ab)


def test_it_compiles_on_many_threads_at_once(byte_level: Tokenizer) -> None:
    compiler = GrammarCompiler(byte_level, SIZE, {END})
    done: list[bool] = []

    def work(number: int) -> None:
        done.append(follows(compiler, byte_level, Guide("regex", f"{number % 3}a+"), f"{number % 3}aa"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 9
