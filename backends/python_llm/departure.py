"""How a generator learns that Triton has taken its version away, while it cannot be reached any more.

Triton sends a version that is being unloaded nothing new, but what was on its way goes on: an ensemble holds the steps
that it began with, and its second step may come a moment later.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["await_unloading"]

_LOOK_SECONDS = 0.25
_ON_THE_WAY_SECONDS = 2.0  # a tokenizer's step takes milliseconds; a busy machine, more
_MOST_SECONDS = 900.0  # by then whoever ordered it has failed: the version stays


def await_unloading(
    served: Callable[[], bool],
    wait_closed: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Whether the version is gone, and all that was on its way has come; False where it stays, or was closed.

    ``wait_closed``: waits so many seconds at most, and says whether the generator was closed meanwhile.
    """
    deadline = clock() + _MOST_SECONDS
    while served():
        if wait_closed(_LOOK_SECONDS) or clock() > deadline:
            return False
    return not wait_closed(_ON_THE_WAY_SECONDS)
