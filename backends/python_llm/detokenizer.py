"""From a chunk of tokens to its text: the far end of the generator's exact stream."""

from __future__ import annotations

from collections.abc import Sequence

from python_llm.token_bytes import TokenBytes

__all__ = ["chunk_text"]


def chunk_text(token_bytes: TokenBytes, ids: Sequence[int], span: Sequence[int]) -> str:
    """The text of ``ids``: ``span`` is (UTF-8 bytes to skip, bytes to emit after them); see ``stream.Delta``."""
    skip, emit = span
    text = b"".join(token_bytes[token_id] for token_id in ids).decode("utf-8", "replace")
    return text.encode()[skip : skip + emit].decode()
