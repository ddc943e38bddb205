"""Who runs in the next step, and with how many tokens.

Each step holds at most ``max_num_tokens`` tokens: first one token of every decoding sequence, then prompt chunks
(see prefill). Who waits is admitted in the order of the waiting queue; a better priority, or a tenant that has less
than its share, may take the place of a running sequence.

When blocks run out, a sequence ranked late gives its blocks back and waits; its tokens are kept and computed again
later. The sequence ranked first is never preempted, so the work always gets done.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterable, Mapping

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.crowd import Crowd
from python_llm.engines.paged.prefill import ItlGoal, share_prefill
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.slice import Slice
from python_llm.engines.paged.speculation import Speculation, guess_limits
from python_llm.engines.paged.tenant_shares import TenantShares, level_out
from python_llm.engines.paged.victims import Victims
from python_llm.engines.paged.waiting import WaitingQueue

__all__ = ["Scheduler", "Slice"]


class Scheduler:
    """Waiting and running queues over one block pool; used by the engine's thread alone."""

    def __init__(
        self,
        pool: BlockPool,
        cache: PrefixCache,
        *,
        block_size: int,
        max_running: int,
        max_num_tokens: int,
        max_itl_seconds: float = 0.0,
        ageing_seconds: float = 0.0,
        speculation: Speculation | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._cache = cache
        self._block_size = block_size
        self._max_running = max_running
        self._shares = TenantShares(credit=2 * max_num_tokens, clock=clock)
        self._crowd = Crowd(max_running, max_num_tokens)
        self.speculation = speculation or Speculation(None)
        self.goal = ItlGoal(max_itl_seconds, max_num_tokens)
        ready = cache.store.is_ready
        self.waiting = WaitingQueue(self._shares, ageing_seconds=ageing_seconds, clock=clock, ready=ready)
        self.running: list[Sequence] = []  # sorted by rank
        self._victims = Victims(self.running, self._shares, pool, block_size=block_size, max_running=max_running)
        self.preemptions = 0
        self._copies: list[tuple[int, int]] = []

    def add(self, sequence: Sequence) -> None:
        self._shares.enter(sequence.request.tenant)
        self.waiting.add(sequence)

    def everybody(self) -> list[Sequence]:
        return [*self.running, *self.waiting]

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let ``child`` run, or wait, beside ``parent`` on the same blocks; a shared block is copied when written."""
        for block in child.blocks:
            self._pool.share(block)
        self._shares.enter(child.request.tenant)
        if parent in self.running:
            bisect.insort(self.running, child, key=_rank)
        else:
            self.waiting.add(child)

    def take_copies(self) -> list[tuple[int, int]]:
        """(from, to) of the blocks to copy, in this order, before the step's forward pass."""
        copies, self._copies = self._copies, []
        return copies

    def remove(self, sequence: Sequence) -> None:
        """Take a finished, cancelled or failed sequence out and free its blocks at once."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self._shares.leave(sequence.request.tenant)
        self.speculation.forget(sequence)
        self._give_back(sequence)

    def schedule(self) -> list[Slice]:
        """The next step's slices, blocks allocated; empty only when nothing runs or waits that is ready."""
        self._copies.clear()  # of a plan that came to nothing
        self._admit()
        plan = self._plan()
        while not plan and self.running:
            self._preempt(self._victims.last())  # nobody could move for want of blocks
            plan = self._plan()
        for part in plan:
            self._shares.charge(part.sequence.request.tenant, part.count)
        return plan

    def _plan(self) -> list[Slice]:
        self._make_room_for_the_first()
        for sequence in [s for s in self.running if s.remaining > 1]:
            self._cache.adopt(sequence, self._cache.match(sequence))
        budget = self.goal.budget(sum(s.remaining == 1 for s in self.running))
        if self._shares.several:
            budget = self._crowd.budget(self.running, budget)
        grants = self._grants(budget)
        plan = self._decodes(grants)
        used = _by_tenant([part.sequence for part in plan], lambda sequence: 1)
        prompts = [s for s in self.running if s.remaining > 1]
        for tenant, granted in grants.items():
            mine = [s for s in prompts if s.request.tenant == tenant]
            for sequence, count in share_prefill(mine, granted - used.get(tenant, 0)):
                count = min(count, self._room(sequence))
                if count:
                    self._extend(sequence, count)
                    plan.append(Slice(sequence, count, samples=count == sequence.remaining))
        return plan if prompts else self._speculate(plan, budget - len(plan))

    def _grants(self, budget: int) -> dict[str, int]:
        """Tokens for each tenant. One of them is for the first in rank, whatever its tenant was served."""
        if not self.running:
            return {}
        wants, first = _by_tenant(self.running, lambda sequence: sequence.remaining), self.running[0]
        wants[first.request.tenant] -= 1
        grants = level_out(wants, budget - 1, self._shares.served)
        grants[first.request.tenant] += 1
        return grants

    def _speculate(self, plan: list[Slice], budget: int) -> list[Slice]:
        """Add guesses to decoding sequences; they take no block from anybody."""
        drafts = self.speculation.drafts(guess_limits(part.sequence for part in plan), len(plan), budget)
        guessed = []
        for part in plan:
            ids = drafts.get(part.sequence, [])[: self._room(part.sequence) - 1]
            if ids:
                self._extend(part.sequence, 1 + len(ids))
            guessed.append(Slice(part.sequence, 1 + len(ids), part.samples, tuple(ids)) if ids else part)
        return guessed

    def _make_room_for_the_first(self) -> None:
        """A prompt ranked first gets a block before those behind it grow: they must not hold it up."""
        if not self.running or self.running[0].remaining <= 1:
            return
        first = self.running[0]
        self._cache.adopt(first, self._cache.match(first))
        while not self._room(first) and self.running[-1] is not first:
            self._preempt(self._victims.last())
        if self._room(first):
            self._extend(first, 1)

    def _decodes(self, grants: Mapping[str, int]) -> list[Slice]:
        """A token of each decoding sequence, as far as its tenant's grant goes: who waited longest first."""
        plan: dict[Sequence, Slice] = {}
        left = dict(grants)
        for sequence in self._decoding(left):
            tenant = sequence.request.tenant
            while left[tenant] > 0 and sequence in self.running and not self._room(sequence):
                victim = self._victims.last()
                plan.pop(victim, None)
                self._preempt(victim)
            if left[tenant] > 0 and sequence in self.running:
                self._extend(sequence, 1)
                plan[sequence] = Slice(sequence, 1, samples=True)
                left[tenant] -= 1
        return list(plan.values())

    def _decoding(self, left: dict[str, int]) -> list[Sequence]:
        """Who decodes, the first in rank in front; if that is a prompt, a token of its tenant's is kept for it."""
        decoding = [sequence for sequence in self.running if sequence.remaining == 1]
        first = self.running[0] if self.running else None
        if first is not None and first.remaining > 1:
            left[first.request.tenant] -= 1
        if len(decoding) <= min(left.values(), default=0):
            return decoding
        return sorted(decoding, key=lambda s: (s is not first, s.last_token_ns))

    def _admit(self) -> None:
        """Move waiting sequences to running while each has a place, and room for all it must compute now."""
        while (sequence := self.waiting.first()) is not None:
            found = self._cache.match(sequence)
            while not self._fits(sequence, found):
                victim = self._victims.for_newcomer(sequence)
                if victim is None:
                    return
                self._preempt(victim)
            self.waiting.admit(sequence)
            self._cache.adopt(sequence, found)
            bisect.insort(self.running, sequence, key=_rank)
            self._cache.load(sequence)

    def _fits(self, sequence: Sequence, found: list[int]) -> bool:
        """``found`` are known blocks of its beginning. Alone, everything fits that was let in."""
        if sequence.places > self._max_running - sum(s.places for s in self.running):
            return False
        promised = sum(s.blocks_for(len(s.tokens), self._block_size) for s in self.running)
        needed = sequence.blocks_for(len(sequence.tokens), self._block_size) - len(found)
        free = self._pool.free_count - sum(map(self._pool.is_free, found))
        return not self.running or needed <= free - promised

    def _room(self, sequence: Sequence) -> int:
        """Uncomputed tokens that its own and the free blocks can hold."""
        free = self._pool.free_count - self._shares_tail(sequence)
        capacity = (len(sequence.blocks) + free) * self._block_size
        return max(0, capacity - sequence.computed) if free >= 0 else 0

    def _extend(self, sequence: Sequence, count: int) -> None:
        if self._shares_tail(sequence):
            self._copy_tail(sequence)
        for _ in range(sequence.blocks_for(sequence.computed + count, self._block_size)):
            sequence.blocks.append(self._pool.allocate())
            sequence.blocks_allocated += 1

    def _shares_tail(self, sequence: Sequence) -> bool:
        """Whether the block that its next token is written to is begun, and another's too."""
        tail, begun = divmod(sequence.computed, self._block_size)
        return begun > 0 and self._pool.is_shared(sequence.blocks[tail])

    def _copy_tail(self, sequence: Sequence) -> None:
        tail = sequence.computed // self._block_size
        shared, copy = sequence.blocks[tail], self._pool.allocate()
        self._copies.append((shared, copy))
        self._pool.release([shared])
        sequence.blocks[tail] = copy
        sequence.blocks_allocated += 1

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        if sequence.request.trace is not None:
            sequence.request.trace.preempted(sequence.computed)
        self._give_back(sequence)
        self.waiting.add(sequence)
        self.preemptions += 1

    def _give_back(self, sequence: Sequence) -> None:
        self._pool.release(reversed(sequence.blocks))  # the tail is reused first: a prefix is worth most at its head
        sequence.forget_cache()


def _rank(sequence: Sequence) -> tuple[int, int, int]:
    return sequence.rank


def _by_tenant(sequences: Iterable[Sequence], count: Callable[[Sequence], int]) -> dict[str, int]:
    """Sums of ``count`` over each tenant's sequences."""
    sums: dict[str, int] = {}
    for sequence in sequences:
        sums[sequence.request.tenant] = sums.get(sequence.request.tenant, 0) + count(sequence)
    return sums
