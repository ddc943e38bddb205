"""From a chunk of tokens to its texts: the far end of the generator's exact stream."""

from __future__ import annotations

from collections.abc import Sequence

from python_llm.token_bytes import TokenBytes

__all__ = ["chunk_texts"]


def chunk_texts(token_bytes: TokenBytes, ids: Sequence[int], spans: Sequence[int]) -> list[str]:
    """The text of each sequence in a chunk.

    ``spans`` has for each of them how many of ``ids`` are its own, UTF-8 bytes of their text to skip, and bytes to
    emit after them; see ``stream.Delta``.
    """
    texts, begin = [], 0
    for count, skip, emit in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
        text = b"".join(token_bytes[token_id] for token_id in ids[begin : begin + count]).decode("utf-8", "replace")
        texts.append(text.encode()[skip : skip + emit].decode())
        begin += count
    return texts
