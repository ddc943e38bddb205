"""Who runs in the next step, and with how many tokens.

Each step holds at most ``max_num_tokens`` tokens: first one token of every decoding sequence, then prompt chunks.
Of the prompt budget the first prompt in line may take half; the rest goes to the prompts with least left to
compute. So a short prompt passes long ones at once, and the longest one still moves at half speed.

When blocks run out, the sequence ranked last gives its blocks back and waits; its tokens are kept and computed
again later. The sequence ranked first is never preempted, so the work always gets done.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.sequence import Sequence

__all__ = ["Scheduler", "Slice"]


@dataclass(frozen=True, slots=True)
class Slice:
    """The next ``count`` uncomputed tokens of a sequence; ``samples`` when they are all that remain."""

    sequence: Sequence
    count: int
    samples: bool

    @property
    def rows(self) -> int:
        """Of how many of the tokens, the last ones, logits are wanted."""
        return self.count if self.sequence.scores_prompt else int(self.samples)


class Scheduler:
    """Waiting and running queues over one block pool; used by the engine's thread alone."""

    def __init__(
        self, pool: BlockPool, cache: PrefixCache, *, block_size: int, max_running: int, max_num_tokens: int
    ) -> None:
        self._pool = pool
        self._cache = cache
        self._block_size = block_size
        self._max_running = max_running
        self._max_num_tokens = max_num_tokens
        self.waiting: list[Sequence] = []  # both sorted by rank
        self.running: list[Sequence] = []
        self.preemptions = 0
        self._copies: list[tuple[int, int]] = []

    def add(self, sequence: Sequence) -> None:
        bisect.insort(self.waiting, sequence, key=_rank)

    def everybody(self) -> list[Sequence]:
        return [*self.running, *self.waiting]

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let ``child`` run, or wait, beside ``parent`` on the same blocks; a shared block is copied when written."""
        for block in child.blocks:
            self._pool.share(block)
        bisect.insort(self.running if parent in self.running else self.waiting, child, key=_rank)

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
        self._give_back(sequence)

    def schedule(self) -> list[Slice]:
        """The next step's slices, blocks allocated; empty only when nothing waits or runs."""
        self._admit()
        plan = self._plan()
        while not plan and self.running:
            self._preempt(self.running[-1])  # nobody could move for want of blocks
            plan = self._plan()
        return plan

    def _plan(self) -> list[Slice]:
        self._make_room_for_the_first()
        plan = self._decodes()
        budget = self._max_num_tokens - len(plan)
        prompts = [s for s in self.running if s.remaining > 1]
        for sequence in prompts:
            self._cache.adopt(sequence, self._cache.match(sequence))
        for sequence, count in share_prefill(prompts, budget):
            count = min(count, self._room(sequence))
            if count:
                self._extend(sequence, count)
                plan.append(Slice(sequence, count, samples=count == sequence.remaining))
        return plan

    def _make_room_for_the_first(self) -> None:
        """A prompt ranked first gets a block before those behind it grow: they must not hold it up."""
        if not self.running or self.running[0].remaining <= 1:
            return
        first = self.running[0]
        self._cache.adopt(first, self._cache.match(first))
        while not self._room(first) and self.running[-1] is not first:
            self._preempt(self.running[-1])
        if self._room(first):
            self._extend(first, 1)

    def _decodes(self) -> list[Slice]:
        plan = []
        for sequence in [s for s in self.running if s.remaining == 1]:
            while sequence in self.running and not self._room(sequence):
                self._preempt(self.running[-1])
            if sequence in self.running:
                self._extend(sequence, 1)
                plan.append(Slice(sequence, 1, samples=True))
        return plan

    def _admit(self) -> None:
        """Move waiting sequences to running, in order, while each has room for all it must compute now."""
        promised = sum(s.blocks_for(len(s.tokens), self._block_size) for s in self.running)
        places = self._max_running - sum(s.places for s in self.running)
        while self.waiting and self.waiting[0].places <= places:
            sequence = self.waiting[0]
            found = self._cache.match(sequence)
            needed = sequence.blocks_for(len(sequence.tokens), self._block_size) - len(found)
            free = self._pool.free_count - sum(map(self._pool.is_free, found))
            if self.running and needed > free - promised:
                return
            del self.waiting[0]
            self._cache.adopt(sequence, found)
            promised += needed
            places -= sequence.places
            bisect.insort(self.running, sequence, key=_rank)

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
        self._give_back(sequence)
        self.add(sequence)
        self.preemptions += 1

    def _give_back(self, sequence: Sequence) -> None:
        self._pool.release(reversed(sequence.blocks))  # the tail is reused first: a prefix is worth most at its head
        sequence.forget_cache()


def share_prefill(prompts: list[Sequence], budget: int) -> list[tuple[Sequence, int]]:
    """Divide ``budget`` tokens among prompts sorted by rank; see the module docstring for the rule."""
    if not prompts or budget < 1:
        return []
    head = prompts[0]
    grants = {head: min(head.remaining, max(1, budget // 2))}
    budget -= grants[head]
    for sequence in sorted(prompts, key=lambda s: (s.request.priority, s.remaining, s.arrival)):
        granted = grants.get(sequence, 0)
        extra = min(budget, sequence.remaining - granted)
        if extra:
            grants[sequence] = granted + extra
            budget -= extra
    return [(s, grants[s]) for s in prompts if s in grants]


def _rank(sequence: Sequence) -> tuple[int, int, int]:
    return sequence.rank
