"""The far end of a stream: a chunk's text is the delta's text, whatever the tokenizer, the chunking and the stops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from python_llm.detokenizer import chunk_texts
from python_llm.stop_words import StopWords
from python_llm.stream import Delta, TextStream
from python_llm.token_bytes import TokenBytes

_ids = st.lists(st.integers(0, 511), max_size=40)
_words = st.lists(st.text("aeth \u00e9", min_size=1), max_size=3)


@pytest.fixture(scope="module")
def tables(byte_level: Tokenizer, sentencepiece: Tokenizer) -> dict[str, TokenBytes]:
    return {"byte_level": TokenBytes(byte_level), "sentencepiece": TokenBytes(sentencepiece)}


def chunk_of(delta: Delta) -> tuple[int, ...]:
    return (*delta.context, *delta.ids)


def span_of(delta: Delta) -> tuple[int, int, int]:
    return len(chunk_of(delta)), delta.skip, len(delta.text.encode())


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
@given(
    ids=_ids,
    cut=st.integers(0, 40),
    chunk=st.integers(1, 5),
    words=st.lists(st.text("aeth \u00e9", min_size=1), max_size=3),
    keep=st.booleans(),
)
def test_a_chunk_says_what_its_delta_says(
    tables: dict[str, TokenBytes], kind: str, ids: list[int], cut: int, chunk: int, words: list[str], keep: bool
) -> None:
    table = tables[kind]
    stream = TextStream(table, StopWords(words), keep_stop_word=keep)
    resumed, rest = ids[:cut], ids[cut:]
    stream.resume(resumed)
    deltas = [stream.push(rest[begin : begin + chunk]) for begin in range(0, len(rest), chunk)]
    deltas.append(stream.finish())
    for delta in [*deltas, Delta.join(deltas)]:
        assert chunk_texts(table, chunk_of(delta), span_of(delta)) == [delta.text]
    whole = [i for delta in deltas for i in chunk_of(delta)]
    spans = [number for delta in deltas for number in span_of(delta)]
    assert chunk_texts(table, whole, spans) == [delta.text for delta in deltas]


def test_only_the_first_delta_of_a_resumed_stream_has_a_context(tables: dict[str, TokenBytes]) -> None:
    table = tables["byte_level"]
    euro = [next(i for i in range(512) if table[i] == bytes([byte])) for byte in "\u20ac".encode()]
    stream = TextStream(table, StopWords([]))
    stream.resume(euro[:2])
    assert not stream.push([])
    first, second = stream.push([euro[2]]), stream.push(euro)
    assert (first.text, first.ids, first.context) == ("\u20ac", (euro[2],), tuple(euro[:2]))
    assert (second.text, second.context) == ("\u20ac", ())
