"""Token ids that are words: a random prompt of them is the same tokens as text, whichever route carries it."""

from __future__ import annotations

import re
from pathlib import Path

from tokenizers import Tokenizer

__all__ = ["plain_words"]

_WORD = re.compile(r" [a-z]+")
_FEWEST = 16


def plain_words(tokenizer_file: Path) -> tuple[int, ...]:
    """Ids whose text is a space and small letters, and whose text gives the id back; empty where there are too few."""
    if not tokenizer_file.is_file():
        return ()
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    ids = range(tokenizer.get_vocab_size())
    texts = tokenizer.decode_batch([[token] for token in ids])
    words = [(token, text) for token, text in zip(ids, texts, strict=True) if _WORD.fullmatch(text)]
    again = tokenizer.encode_batch([text for _, text in words], add_special_tokens=False)
    found = tuple(token for (token, _), encoding in zip(words, again, strict=True) if encoding.ids == [token])
    return found if len(found) >= _FEWEST else ()
