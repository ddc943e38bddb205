"""The bytes of tokens, concatenated, are what the tokenizers library decodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models

from python_llm.errors import CallerMistake
from python_llm.token_bytes import TokenBytes


def joined(token_bytes: TokenBytes, ids: list[int]) -> str:
    return b"".join(token_bytes[i] for i in ids).decode("utf-8", "replace")


@given(ids=st.lists(st.integers(0, 511), max_size=40))
def test_byte_level_ids_decode_as_the_library_decodes_them(byte_level: Tokenizer, ids: list[int]) -> None:
    assert joined(TokenBytes(byte_level), ids) == byte_level.decode(ids, skip_special_tokens=True)


@given(text=st.text())
def test_byte_level_text_comes_back(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text).ids
    assert joined(TokenBytes(byte_level), ids) == byte_level.decode(ids, skip_special_tokens=True)


@given(text=st.text())
def test_sentencepiece_text_comes_back_behind_its_own_space(sentencepiece: Tokenizer, text: str) -> None:
    ids = sentencepiece.encode(text, add_special_tokens=False).ids
    plain = text.replace("▁", " ")  # the normalizer cannot tell the two apart
    whole = joined(TokenBytes(sentencepiece), ids)
    if "<s>" not in text and "</s>" not in text and "<unk>" not in text and "<tool_call>" not in text:
        assert whole == (" " + plain if plain else "")
        assert whole[1:] == sentencepiece.decode(ids)


def test_a_leading_space_is_kept(sentencepiece: Tokenizer) -> None:
    ids = [sentencepiece.token_to_id("▁the"), sentencepiece.token_to_id("▁ab")]
    assert joined(TokenBytes(sentencepiece), ids) == " the ab"
    assert sentencepiece.decode(ids) == "the ab"  # which is why the library's decode does not do


def test_special_tokens_and_unknown_ids_have_no_bytes(byte_level: Tokenizer, sentencepiece: Tokenizer) -> None:
    for tokenizer in (byte_level, sentencepiece):
        token_bytes = TokenBytes(tokenizer)
        assert [token_bytes[i] for i in (0, 1, 2)] == [b"", b"", b""]
        assert token_bytes[10**9] == b""


def test_added_tokens_that_are_not_special_are_text(sentencepiece: Tokenizer) -> None:
    token_id = sentencepiece.token_to_id("<tool_call>")
    assert TokenBytes(sentencepiece)[token_id] == b"<tool_call>"


def test_an_added_token_outside_the_alphabet_is_its_own_text(byte_level: Tokenizer) -> None:
    own = Tokenizer.from_str(byte_level.to_str())
    own.add_tokens([AddedToken("日 本", special=False, normalized=False)])
    token_id = own.token_to_id("日 本")
    assert TokenBytes(own)[token_id].decode() == own.decode([token_id]) == "日 本"


def test_a_raw_byte_is_a_byte(sentencepiece: Tokenizer) -> None:
    token_bytes = TokenBytes(sentencepiece)
    assert [token_bytes[sentencepiece.token_to_id(f"<0x{byte:02X}>")] for byte in range(256)] == [
        bytes([byte]) for byte in range(256)
    ]


@pytest.mark.parametrize(
    "decoder",
    [
        decoders.Metaspace(),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
    ],
)
def test_every_sentencepiece_decoder_is_known(sentencepiece: Tokenizer, decoder: decoders.Decoder) -> None:
    own = Tokenizer.from_str(sentencepiece.to_str())
    own.decoder = decoder
    assert joined(TokenBytes(own), [own.token_to_id("▁the")]) == " the"


@pytest.mark.parametrize("decoder", [decoders.WordPiece(), decoders.BPEDecoder(), None])
def test_other_decoders_are_refused_by_name(decoder: decoders.Decoder | None) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    if decoder is not None:
        tokenizer.decoder = decoder
    with pytest.raises(CallerMistake) as caught:
        TokenBytes(tokenizer)
    for word in ("missing" if decoder is None else type(decoder).__name__, "ByteLevel", "convert"):
        assert word in str(caught.value)


@given(text=st.text(alphabet=st.sampled_from("ab é日the. "), max_size=200))
def test_the_bound_on_a_texts_tokens_holds(byte_level: Tokenizer, sentencepiece: Tokenizer, text: str) -> None:
    for tokenizer in (byte_level, sentencepiece):
        fewest = len(text.encode()) // TokenBytes(tokenizer).longest()
        assert fewest <= len(tokenizer.encode(text).ids)


def test_the_longest_token_is_found_behind_a_gap_in_the_ids() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "longest": 900}, unk_token="a"))
    tokenizer.decoder = decoders.ByteLevel()
    assert TokenBytes(tokenizer).longest() >= len("longest")
