"""The stream's laws, over random tokens in random chunks, with and without stop words.

The reference is slow and plain: it decodes every prefix from the start and looks at every end of the text.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from python_llm.stop_words import StopWords
from python_llm.stream import Delta, TextStream
from python_llm.token_bytes import TokenBytes

BYTE_LEVEL, SENTENCEPIECE = "byte_level", "sentencepiece"


@dataclass(frozen=True)
class Expected:
    """``ends[k]``: characters that are certain after k tokens."""

    text: str
    ids: list[int]
    ends: list[int]
    stop_word: str | None


def expect(token_bytes: TokenBytes, ids: list[int], words: list[str], min_tokens: int) -> Expected:
    pieces = [token_bytes[i] for i in ids]
    whole = b"".join(pieces).decode("utf-8", "replace")
    ends = [
        len(codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(pieces[:k]))) for k in range(len(ids) + 1)
    ]
    for count in range(1, len(ids) + 1):
        for end in range(ends[count - 1] + 1, ends[count] + 1):
            found = [word for word in words if word and whole[:end].endswith(word)]
            if found and count > min_tokens:
                longest = max(found, key=len)
                return Expected(whole[: end - len(longest)], ids[:count], ends, longest)
    return Expected(whole, ids, ends, None)


def _certain(raw: bytes) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw)


def decode(token_bytes: TokenBytes, ids: list[int]) -> str:
    return b"".join(token_bytes[i] for i in ids).decode("utf-8", "replace")


def chunks_of(ids: list[int], cuts: list[int]) -> list[list[int]]:
    chunks, rest = [], ids
    for cut in cuts:
        chunks.append(rest[:cut])
        rest = rest[cut:]
    return [*chunks, rest]


def run(stream: TextStream, chunks: list[list[int]]) -> list[Delta]:
    return [*(stream.push(chunk) for chunk in chunks), stream.finish()]


def join(deltas: list[Delta]) -> Delta:
    return Delta.join(deltas)


_cuts = st.lists(st.integers(0, 5), max_size=12)
_kinds = st.sampled_from([BYTE_LEVEL, SENTENCEPIECE])


class Tokenizers:
    """Both kinds, and the ids that make interesting text of them."""

    def __init__(self, byte_level: Tokenizer, sentencepiece: Tokenizer) -> None:
        self.raw = {BYTE_LEVEL: byte_level, SENTENCEPIECE: sentencepiece}
        self.bytes = {kind: TokenBytes(raw) for kind, raw in self.raw.items()}

    def draw_ids(self, data: st.DataObject, kind: str) -> list[int]:
        size = self.raw[kind].get_vocab_size()
        any_ids = st.lists(st.integers(0, size + 1), max_size=25)
        text = st.text(alphabet="ab éthe日本\ufffd😀.", max_size=20)
        of_text = text.map(lambda t: list(self.raw[kind].encode(t, add_special_tokens=False).ids))
        return data.draw(st.one_of(any_ids, of_text, st.tuples(of_text, any_ids).map(lambda p: p[0] + p[1])), "ids")

    def draw_words(self, data: st.DataObject, text: str) -> list[str]:
        """Words that the text has, and words that it may have begun."""
        some = st.text(alphabet="ab éthe日\ufffd", max_size=4)
        if not text:
            return data.draw(st.lists(some, max_size=3), "words")
        begin = st.integers(0, len(text) - 1)
        slices = st.tuples(begin, st.integers(1, 6)).map(lambda p: text[p[0] : p[0] + p[1]])
        longer = slices.map(lambda word: word + "a")
        return data.draw(st.lists(st.one_of(some, slices, longer), max_size=4), "words")


@pytest.fixture(scope="module")
def both(byte_level: Tokenizer, sentencepiece: Tokenizer) -> Tokenizers:
    return Tokenizers(byte_level, sentencepiece)


@given(data=st.data(), kind=_kinds, cuts=_cuts)
def test_without_stop_words_nothing_is_lost_or_early(
    both: Tokenizers, data: st.DataObject, kind: str, cuts: list[int]
) -> None:
    ids = both.draw_ids(data, kind)
    token_bytes = both.bytes[kind]
    stream = TextStream(token_bytes, StopWords([]))
    received: list[int] = []
    text, pushed = "", 0
    for chunk in chunks_of(ids, cuts):
        delta = stream.push(chunk)
        received += delta.ids
        text += delta.text
        pushed += len(chunk)
        assert decode(token_bytes, received) == text
        assert received == ids[: len(received)]
        raw = b"".join(token_bytes[i] for i in ids[:pushed])
        if not _ends_inside_a_character(raw):  # then nothing may be held back
            assert len(received) == pushed
    last = stream.finish()
    assert [*received, *last.ids] == ids
    assert text + last.text == decode(token_bytes, ids)
    assert stream.token_count == len(ids)
    if kind == BYTE_LEVEL:
        assert text + last.text == both.raw[kind].decode(ids, skip_special_tokens=True)


def _ends_inside_a_character(raw: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    return bool(decoder.getstate()[0])


@given(data=st.data(), kind=_kinds, cuts=_cuts, min_tokens=st.integers(0, 8))
def test_stop_words_cut_as_the_reference_cuts(
    both: Tokenizers, data: st.DataObject, kind: str, cuts: list[int], min_tokens: int
) -> None:
    ids = both.draw_ids(data, kind)
    token_bytes = both.bytes[kind]
    words = both.draw_words(data, decode(token_bytes, ids))
    expected = expect(token_bytes, ids, words, min_tokens)
    stream = TextStream(token_bytes, StopWords(words), min_tokens)
    received: list[int] = []
    text = ""
    for chunk in chunks_of(ids, cuts):
        delta = stream.push(chunk)
        received += delta.ids
        text += delta.text
        assert expected.text.startswith(text)  # nothing that belongs to the match was sent
        if stream.stop_word is None:
            assert decode(token_bytes, received) == text
    last = stream.finish()
    assert text + last.text == expected.text
    assert [*received, *last.ids] == expected.ids
    assert stream.stop_word == expected.stop_word
    assert stream.token_count == len(expected.ids)


@given(data=st.data(), kind=_kinds)
def test_no_more_is_held_back_than_may_begin_a_stop_word(both: Tokenizers, data: st.DataObject, kind: str) -> None:
    ids = both.draw_ids(data, kind)
    token_bytes = both.bytes[kind]
    words = both.draw_words(data, decode(token_bytes, ids))
    expected = expect(token_bytes, ids, words, 0)
    beginnings = {word[:length] for word in words for length in range(len(word) + 1)} | {""}
    stream = TextStream(token_bytes, StopWords(words))
    sent = 0
    for count, token_id in enumerate(ids, start=1):
        sent += len(stream.push([token_id]).text)
        if stream.stop_word is not None:
            break
        certain = decode(token_bytes, ids)[: expected.ends[count]]
        safe = len(certain) - max(len(b) for b in beginnings if certain.endswith(b))
        whole = [k for k in range(count + 1) if not _ends_inside_a_character(b"".join(token_bytes[i] for i in ids[:k]))]
        assert sent == max(expected.ends[k] for k in whole if expected.ends[k] <= safe)


@given(data=st.data(), kind=_kinds, cuts=_cuts, again=_cuts, min_tokens=st.integers(0, 6))
def test_resumed_at_any_received_prefix_the_text_is_the_same(
    both: Tokenizers, data: st.DataObject, kind: str, cuts: list[int], again: list[int], min_tokens: int
) -> None:
    ids = both.draw_ids(data, kind)
    token_bytes = both.bytes[kind]
    words = both.draw_words(data, decode(token_bytes, ids))
    stop_words = StopWords(words)
    expected = expect(token_bytes, ids, words, min_tokens)
    first = TextStream(token_bytes, stop_words, min_tokens)
    received = Delta("", ())
    for chunk in chunks_of(ids, cuts):
        received = join([received, first.push(chunk)])
        if first.stop_word is not None:
            break
        second = TextStream(token_bytes, stop_words, min_tokens)
        second.resume(received.ids)
        rest = join(run(second, chunks_of(ids[len(received.ids) :], again)))
        assert received.text + rest.text == expected.text
        assert [*received.ids, *rest.ids] == expected.ids
        assert second.stop_word == expected.stop_word
        assert second.token_count == len(expected.ids)


def ids_of(tokenizer: Tokenizer, *tokens: str) -> list[int]:
    found = [tokenizer.token_to_id(token) for token in tokens]
    assert None not in found
    return found


def test_half_a_character_is_never_sent_and_ends_as_one_replacement(both: Tokenizers) -> None:
    tokenizer = both.raw[SENTENCEPIECE]
    stream = TextStream(both.bytes[SENTENCEPIECE], StopWords([]))
    ids = ids_of(tokenizer, "a", "<0xE6>", "<0x97>")
    assert stream.push(ids) == Delta("a", (ids[0],))
    assert stream.finish() == Delta("\ufffd", tuple(ids[1:]))


def test_a_character_in_three_tokens_comes_with_all_three_ids(both: Tokenizers) -> None:
    ids = ids_of(both.raw[SENTENCEPIECE], "<0xE6>", "<0x97>", "<0xA5>")
    stream = TextStream(both.bytes[SENTENCEPIECE], StopWords([]))
    assert [stream.push([i]) for i in ids] == [Delta("", ()), Delta("", ()), Delta("日", tuple(ids))]


def test_a_real_replacement_character_is_text(both: Tokenizers) -> None:
    ids = ids_of(both.raw[SENTENCEPIECE], "\ufffd", "a")
    stream = TextStream(both.bytes[SENTENCEPIECE], StopWords([]))
    assert stream.push(ids[:1]) == Delta("\ufffd", (ids[0],))


def test_a_stop_word_over_two_tokens_is_cut_with_both_ids(both: Tokenizers) -> None:
    ids = ids_of(both.raw[SENTENCEPIECE], "▁a", "b", "abc", "e")
    stream = TextStream(both.bytes[SENTENCEPIECE], StopWords(["bab"]))
    assert stream.push(ids[:2]) == Delta(" a", (ids[0],))
    assert stream.push(ids[2:]) == Delta("", (ids[1], ids[2]))
    assert stream.stop_word == "bab"
    assert stream.push(ids) == Delta("", ())
    assert stream.finish() == Delta("", ())


def test_an_empty_delta_is_false() -> None:
    assert not Delta("", ())
    assert Delta("", (1,))
    assert Delta("a", ())
