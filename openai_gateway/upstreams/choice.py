"""Which of the servers that could is asked.

Without a prefix: the less loaded of two drawn at random (M. Mitzenmacher, "The power of two choices in randomized load
balancing"), which is nearly as even as the least of all, and keeps several gateways from choosing the same one. With a
prefix: the server on which it was computed before, by rendezvous hashing, while that one's load keeps to a bound of
the mean (V. Mirrokni et al., "Consistent hashing with bounded loads"), else the next in the prefix's own order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

__all__ = ["Loaded", "choose", "share_of"]


class Loaded(Protocol):
    """``load``: work that is still to do, in tokens."""

    @property
    def name(self) -> str: ...

    @property
    def load(self) -> float: ...


S = TypeVar("S", bound=Loaded)


def choose(servers: Sequence[S], work: float, prefix: str, load_bound: float, draw: random.Random) -> S:
    """One of ``servers`` (not empty) for a request of ``work`` tokens."""
    if not prefix:
        return min(draw.sample(servers, min(2, len(servers))), key=lambda server: server.load)
    bound = load_bound * sum(server.load for server in servers) / len(servers) + work
    ranked = sorted(servers, key=lambda server: share_of(f"{server.name} {prefix}"), reverse=True)
    within = (server for server in ranked if server.load <= bound)
    return next(within)  # the least loaded is always within


def share_of(text: str) -> float:
    """A number from 0 to 1, the same for the same text everywhere."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") / 2**64
