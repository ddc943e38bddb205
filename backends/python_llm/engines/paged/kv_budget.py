"""How many KV blocks there are: from the byte budget, or from the memory that is left once the weights are loaded."""

from __future__ import annotations

import logging

from python_llm.errors import CallerMistake
from python_llm.machine import free_bytes
from python_llm.settings import ServingConfig

__all__ = ["block_count"]

_log = logging.getLogger(__name__)
_SHARE = 0.6  # of what is left; the rest is for activations, other models and the page cache


def block_count(serving: ServingConfig, *, block_bytes: int, block_size: int, context_length: int) -> int:
    """Blocks that ``kv_cache_bytes`` holds; 0: a share of the free memory, and no more than could ever be used.

    Raises:
        CallerMistake: that is not even two.
    """
    budget = serving.kv_cache_bytes
    if not budget:
        length = min(serving.max_sequence_len or context_length, context_length)
        useful = serving.max_running * -(-length // block_size) * block_bytes
        budget = min(int(_SHARE * free_bytes()), useful)
    elif budget > (left := free_bytes()):
        _log.warning("kv_cache_bytes %d: only %d bytes of memory are left; lower it, or set 0", budget, left)
    blocks = budget // block_bytes
    if blocks < 2:
        raise CallerMistake(
            f"kv_cache_bytes {serving.kv_cache_bytes}: one block takes {block_bytes} bytes and {budget} are there; "
            f"give it at least {2 * block_bytes}."
        )
    how = "as set" if serving.kv_cache_bytes else "of the memory that is left"
    _log.info("KV cache: %d bytes %s: %d blocks of %d tokens", blocks * block_bytes, how, blocks, block_size)
    return blocks
