"""Names of KV blocks: chained hashes of prompt tokens, the same in every server and in a router before them.

Block i holds tokens i * B to (i + 1) * B - 1. Its hash is BLAKE2b, 16 bytes, no key, over the hash of the block before
it and its tokens as little-endian int32; before the first block stands the request's ``cache_salt`` in UTF-8, by
default nothing. So equal hashes mean equal tokens from the prompt's first one on. A block that is not full has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

__all__ = ["PREFIX_HASH", "block_hash", "first_parent", "prefix_hashes"]

PREFIX_HASH = "blake2b-128 chain of int32"  # another text wherever the hashes are made in another way
_HASH_BYTES = 16


def first_parent(cache_salt: str) -> bytes:
    """What stands before the first block."""
    return cache_salt.encode()


def block_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """16 bytes for a full block of these tokens behind ``parent``."""
    return blake2b(parent + np.array(token_ids, "<i4").tobytes(), digest_size=_HASH_BYTES).digest()


def prefix_hashes(token_ids: Sequence[int], block_size: int, cache_salt: str = "") -> list[bytes]:
    """The hashes of the full blocks of a prompt, its beginning first."""
    hashes, parent = [], first_parent(cache_salt)
    for begin in range(0, len(token_ids) - block_size + 1, block_size):
        parent = block_hash(parent, token_ids[begin : begin + block_size])
        hashes.append(parent)
    return hashes
