"""Who makes way: for want of blocks, for a better priority, or for a tenant that has less than its share."""

from __future__ import annotations

from collections import Counter

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.tenant_shares import TenantShares

__all__ = ["Victims"]


class Victims:
    """Chooses among ``running``, the scheduler's own list, sorted by rank. The first in rank is never chosen."""

    def __init__(
        self, running: list[Sequence], shares: TenantShares, pool: BlockPool, *, block_size: int, max_running: int
    ) -> None:
        self._running = running
        self._shares = shares
        self._pool = pool
        self._block_size = block_size
        self._max_running = max_running

    def last(self) -> Sequence:
        """The last in rank, of the tenant that has most running; the only one, if there is no other."""
        held = Counter(sequence.request.tenant for sequence in self._running)
        later = self._running[1:] or self._running
        return max(enumerate(later), key=lambda each: (held[each[1].request.tenant], each[0]))[1]

    def for_newcomer(self, newcomer: Sequence) -> Sequence | None:
        """One whose priority is worse, or whose tenant has more than its share while the newcomer's has not."""
        if len(self._running) < 2:
            return None
        if self._running[-1].priority > newcomer.priority:
            return self._running[-1]
        tenants, mine = self._shares.count, newcomer.request.tenant
        if tenants < 2 or self._share_of(mine, newcomer) > 1 / tenants:
            return None
        victim = self.last()
        theirs = victim.request.tenant
        stands_back = victim.priority >= newcomer.priority and theirs != mine
        return victim if stands_back and self._share_of(theirs) > 1 / tenants else None

    def _share_of(self, tenant: str, newcomer: Sequence | None = None) -> float:
        """The part of places or blocks, whichever is larger, that the tenant holds, with the newcomer."""
        mine = [sequence for sequence in self._running if sequence.request.tenant == tenant]
        places = sum(s.places for s in mine) + (newcomer.places if newcomer else 0)
        blocks = sum(len(s.blocks) for s in mine)
        blocks += newcomer.blocks_for(len(newcomer.tokens), self._block_size) if newcomer else 0
        return max(places / self._max_running, blocks / self._pool.total)
