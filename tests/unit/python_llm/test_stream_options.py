"""A stream that keeps its stop word, and one that begins with its prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from python_llm.stop_words import StopWords
from python_llm.stream import Delta, TextStream
from python_llm.token_bytes import TokenBytes

_ids = st.lists(st.integers(0, 511), max_size=30)
_words = st.lists(st.sampled_from(["t", "the", "er", "e ", "\u00e9", "ab"]), max_size=3)


@pytest.fixture(scope="module")
def table(byte_level: Tokenizer) -> TokenBytes:
    return TokenBytes(byte_level)


def run(stream: TextStream, ids: list[int], chunk: int) -> list[Delta]:
    deltas = [stream.push(ids[begin : begin + chunk]) for begin in range(0, len(ids), chunk)]
    return [*deltas, stream.finish()]


@given(ids=_ids, words=_words, chunk=st.integers(1, 5), min_tokens=st.integers(0, 4))
def test_a_kept_stop_word_is_the_end_of_the_text(
    table: TokenBytes, ids: list[int], words: list[str], chunk: int, min_tokens: int
) -> None:
    cut = TextStream(table, StopWords(words), min_tokens)
    kept = TextStream(table, StopWords(words), min_tokens, keep_stop_word=True)
    without, with_it = Delta.join(run(cut, ids, chunk)), Delta.join(run(kept, ids, chunk))
    assert kept.stop_word == cut.stop_word
    assert with_it.ids == without.ids
    # A word that was let through before min_tokens may have taken a part of the one that ends the text.
    assert with_it.text.startswith(without.text)
    if cut.stop_word is None:
        assert with_it.text == without.text
    else:
        assert with_it.text.endswith(cut.stop_word)


@given(prompt=_ids, ids=_ids, chunk=st.integers(1, 5))
def test_an_echo_is_the_beginning_of_the_first_delta_alone(
    table: TokenBytes, prompt: list[int], ids: list[int], chunk: int
) -> None:
    plain, echoing = TextStream(table, StopWords([])), TextStream(table, StopWords([]))
    echoing.echo(prompt)
    text = b"".join(table[i] for i in prompt).decode("utf-8", "replace")
    without, with_it = run(plain, ids, chunk), run(echoing, ids, chunk)
    assert Delta.join(with_it).text == text + Delta.join(without).text
    assert Delta.join(with_it).ids == Delta.join(without).ids
    told = [delta for delta in with_it if delta]
    assert [delta.context for delta in told[1:]] == [()] * len(told[1:])
    if told:
        assert told[0].context == tuple(prompt)
