"""The bytes each token stands for: the ground of exact incremental detokenisation.

A byte-level BPE token is a run of bytes written in GPT-2's printable alphabet; a SentencePiece token is text with
U+2581 for a space, or one raw byte ``<0xNN>``. Concatenated and decoded as UTF-8, the bytes of generated tokens
are the generated text; no window of earlier tokens is needed. Formula of the alphabet: Radford et al. 2019,
``bytes_to_unicode`` of the GPT-2 release.

Two deliberate differences from decoding the ids alone with the ``tokenizers`` library: a leading space is kept
(the text continues a prompt), and bytes that are no UTF-8 become one U+FFFD per broken sequence.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from python_llm.errors import CallerMistake

if TYPE_CHECKING:
    import tokenizers

__all__ = ["TokenBytes"]

_RAW_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _gpt2_alphabet() -> dict[str, int]:
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _gpt2_alphabet()


class TokenBytes:
    """``self[token_id]`` is the token's bytes; special tokens and ids beyond the vocabulary have none."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._byte_level, self._space = _style(json.loads(tokenizer.to_str()).get("decoder"))
        self._special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._added = set(tokenizer.get_added_tokens_decoder())
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token_id: int) -> bytes:
        found = self._known.get(token_id)
        if found is None:
            found = self._compute(token_id)
            self._known[token_id] = found
        return found

    def longest(self) -> int:
        """Bytes of the longest token: a text of n bytes has at least n / longest tokens."""
        return max(map(len, self._tokenizer.get_vocab(with_added_tokens=True)), default=1) * 4

    def _compute(self, token_id: int) -> bytes:
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None or token_id in self._special:
            return b""
        if self._byte_level:
            codes = [_ALPHABET.get(char) for char in token]
            return token.encode() if None in codes else bytes(code for code in codes if code is not None)
        raw = _RAW_BYTE.fullmatch(token)
        if raw and token_id not in self._added:
            return bytes([int(raw[1], 16)])
        return token.replace(self._space, " ").encode()


def _style(decoder: dict[str, Any] | None) -> tuple[bool, str]:
    """Return (byte-level?, the character that stands for a space) for a tokenizer.json decoder."""
    parts = [decoder] if decoder else []
    if decoder and decoder["type"] == "Sequence":
        parts = decoder["decoders"]
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        return True, ""
    for part in parts:
        if part["type"] == "Metaspace":
            return False, str(part["replacement"])
        if part["type"] == "Replace" and part["content"] == " ":
            return False, str(part["pattern"].get("String", "\u2581"))
    raise CallerMistake(
        f"tokenizer: its decoder is {', '.join(sorted(kinds)) or 'missing'}; streaming knows ByteLevel and "
        "SentencePiece (Replace, Metaspace, ByteFallback) decoders: convert the tokenizer to one of them."
    )
