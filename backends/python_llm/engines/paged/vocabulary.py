"""The model's tokens as llguidance wants them, and sets of tokens as packed bits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import tokenizers
from llguidance import LLTokenizer, TokenizerWrapper

from python_llm.token_bytes import TokenBytes

__all__ = ["Mask", "Vocabulary", "has", "packed"]

Mask = npt.NDArray[np.uint32]  # [ceil(vocabulary / 32)]: bit i % 32 of word i // 32 stands for id i


def packed(token_ids: Collection[int], size: int) -> Mask:
    """uint32 [ceil(size / 32)] with the bits of those ids that are below ``size``."""
    bits = np.zeros(-(-size // 32) * 32, np.bool_)
    bits[[i for i in token_ids if 0 <= i < size]] = True
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32, copy=False)


def has(mask: Mask, token_id: int) -> bool:
    """Whether the id's bit is set."""
    return 0 <= token_id < 32 * len(mask) and bool(mask[token_id // 32] >> np.uint32(token_id % 32) & np.uint32(1))


class Vocabulary:
    """Tokens 0 to ``size`` - 1, by the bytes that the detokenizer gives them, special ones and padding left out.

    The library's end token is the id ``size``, which no model has: it stands for whatever ends a request.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, size: int) -> None:
        token_bytes = TokenBytes(tokenizer)
        special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special and i < size}
        tokens = [b"special%d" % i if i in special else token_bytes[i] for i in range(size)]
        self.size = size
        self.ordinary = packed([i for i in range(size) if tokens[i] and i not in special], size)
        wrapped = TokenizerWrapper(_Tokens(tokenizer, [*tokens, b"end"], sorted({*special, size})))
        self.library = LLTokenizer(wrapped)


class _Tokens:
    """What ``TokenizerWrapper`` reads."""

    bos_token_id = None

    def __init__(self, tokenizer: tokenizers.Tokenizer, tokens: Sequence[bytes], special: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = len(tokens) - 1

    def __call__(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids
