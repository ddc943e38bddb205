"""Tenants share an engine by the tokens it computes for each of them.

Whoever was served less comes first, until they are level: a tenant with a hundred requests gets no more than one with
two. (Sheng et al. 2024, Virtual Token Counter: deficit round robin for a batch that changes at every token.) A tenant
that comes starts a small credit below the least served of those that are there, so that an occasional request is
answered at once; it can neither save up service nor be made to pay for an idle hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["TenantShares", "level_out"]

_REMEMBERED = 1024  # tenants that are not here now
_COMES_BACK = 10.0  # seconds for which one who left is expected


class TenantShares:
    """Tokens served to each tenant; compared, never shown. ``credit``: what a comer may have before the others."""

    def __init__(self, credit: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._credit = credit
        self._clock = clock
        self._served: dict[str, int] = {}
        self._present: dict[str, int] = {}  # how many sequences of the tenant wait or run
        self._left: dict[str, float] = {}  # when, the earliest first

    @property
    def count(self) -> int:
        """Tenants that wait or run."""
        return len(self._present)

    @property
    def several(self) -> bool:
        """Whether more than one is here, or was a moment ago."""
        now = self._clock()
        while self._left and now - next(iter(self._left.values())) > _COMES_BACK:
            del self._left[next(iter(self._left))]
        return len(self._present) > 1 or any(tenant not in self._present for tenant in self._left)

    def enter(self, tenant: str) -> None:
        if tenant not in self._present:
            level = min((self._served[t] for t in self._present), default=self._credit) - self._credit
            self._served[tenant] = max(self._served.pop(tenant, 0), level)  # now the last to be forgotten
            self._present[tenant] = 0
        self._present[tenant] += 1

    def leave(self, tenant: str) -> None:
        self._present[tenant] -= 1
        if not self._present[tenant]:
            del self._present[tenant]
            self._left.pop(tenant, None)
            self._left[tenant] = self._clock()
            self._forget()

    def charge(self, tenant: str, tokens: int) -> None:
        self._served[tenant] += tokens

    def served(self, tenant: str) -> int:
        return self._served[tenant]

    def _forget(self) -> None:
        absent = [tenant for tenant in self._served if tenant not in self._present]
        for tenant in absent[: max(0, len(absent) - _REMEMBERED)]:
            del self._served[tenant]


def level_out(wants: Mapping[str, int], budget: int, served: Callable[[str], int]) -> dict[str, int]:
    """Divide ``budget`` tokens among tenants that want so many: the least served first, until they are level."""
    grants = dict.fromkeys(wants, 0)
    while budget > 0:
        levels = {tenant: served(tenant) + grants[tenant] for tenant in wants if grants[tenant] < wants[tenant]}
        if not levels:
            break
        lowest = min(levels.values())
        group = [tenant for tenant, level in levels.items() if level == lowest]
        above = [level for level in levels.values() if level > lowest]
        part = max(1, min(budget // len(group), min(above, default=lowest + budget) - lowest))
        for tenant in group:
            more = min(part, wants[tenant] - grants[tenant], budget)
            grants[tenant] += more
            budget -= more
    return grants
