"""The queue before the engine: who is admitted next.

By priority first, which rises by one for each ``ageing_seconds`` of waiting, so that nobody waits for ever. Among
equals, the tenant that was served the fewest tokens so far; within a tenant, the earlier request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.tenant_shares import TenantShares

__all__ = ["WaitingQueue"]


class WaitingQueue:
    """Waiting sequences; used by the engine's thread alone. ``ageing_seconds`` 0: priorities do not age.

    Who is not ``ready`` is passed over.
    """

    def __init__(
        self,
        shares: TenantShares,
        *,
        ageing_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        ready: Callable[[Sequence], bool] = lambda sequence: True,
    ) -> None:
        self._shares = shares
        self._ready = ready
        self._ageing_seconds = ageing_seconds
        self._clock = clock
        self._since: dict[Sequence, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(sorted(self._since, key=lambda sequence: sequence.rank))

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._since

    def add(self, sequence: Sequence) -> None:
        self._since[sequence] = self._clock()

    def remove(self, sequence: Sequence) -> None:
        del self._since[sequence]

    def admit(self, sequence: Sequence) -> None:
        """Take it out; it keeps the priority that it has risen to."""
        sequence.priority -= self._risen(sequence, self._clock())
        del self._since[sequence]

    def first(self) -> Sequence | None:
        """Who is admitted next; None when nobody waits that is ready."""
        now = self._clock()
        return min(filter(self._ready, self._since), key=lambda sequence: self._order(sequence, now), default=None)

    def _order(self, sequence: Sequence, now: float) -> tuple[int, int, int, int]:
        served = self._shares.served(sequence.request.tenant)
        return sequence.priority - self._risen(sequence, now), served, sequence.arrival, sequence.index

    def _risen(self, sequence: Sequence, now: float) -> int:
        return int((now - self._since[sequence]) / self._ageing_seconds) if self._ageing_seconds else 0
