"""Guesses by a smaller model of the same tokenizer: it runs ahead greedily, over a KV cache of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import numpy as np

from python_llm.engines.paged.block_pool import BlockPool
from python_llm.engines.paged.runner import ModelRunner, build_batch
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.slice import Slice

__all__ = ["DraftModel"]


class DraftModel:
    """A ``Proposer``. Of each sequence it keeps a shadow: the tokens its own cache holds.

    A long prompt is caught up with a chunk at each call, so that no call takes longer than a step; until then the
    sequence gets no guesses.
    """

    def __init__(self, runner: ModelRunner, *, max_num_tokens: int) -> None:
        self._runner = runner
        self._pool = BlockPool(runner.block_count)
        self._max_num_tokens = max_num_tokens
        self._shadows: OrderedDict[Sequence, Sequence] = OrderedDict()  # least lately used first

    def propose(self, wanted: dict[Sequence, int]) -> dict[Sequence, list[int]]:
        begins = {sequence: len(sequence.tokens) for sequence in wanted}
        for sequence in wanted:
            self._follow(sequence)
        ready = self._catch_up(begins)
        while ready:
            going_on = []
            for sequence in ready:
                shadow = self._shadows[sequence]
                if len(shadow.tokens) - begins[sequence] < wanted[sequence] and self._extend(sequence, 1, begins):
                    going_on.append(sequence)
            ready = self._forward([(sequence, 1) for sequence in going_on])
        return {sequence: self._shadows[sequence].tokens[begin:] for sequence, begin in begins.items()}

    def forget(self, sequence: Sequence) -> None:
        shadow = self._shadows.pop(sequence, None)
        if shadow is not None:
            self._pool.release(reversed(shadow.blocks))

    def close(self) -> None:
        self._runner.close()

    def _follow(self, sequence: Sequence) -> None:
        """Let the shadow have the sequence's tokens; where a guess was wrong it goes on from there."""
        shadow = self._shadows.get(sequence)
        if shadow is None:
            shadow = self._shadows[sequence] = Sequence(sequence.request, sequence.sink, sequence.arrival)
            shadow.tokens = []
        same = shadow.cached  # tokens of the last call: they stay
        while same < shadow.computed and shadow.tokens[same] == sequence.tokens[same]:
            same += 1
        shadow.tokens, shadow.cached = [*sequence.tokens], len(sequence.tokens)
        shadow.computed = min(same, shadow.computed, len(sequence.tokens) - 1)
        self._shadows.move_to_end(sequence)

    def _catch_up(self, busy: Collection[Sequence]) -> list[Sequence]:
        """One forward pass; returns those that have a first guess now."""
        parts, budget = [], self._max_num_tokens
        for sequence in busy:
            count = min(self._shadows[sequence].remaining, budget)
            if count and self._extend(sequence, count, busy):
                parts.append((sequence, count))
                budget -= count
        return self._forward(parts)

    def _forward(self, parts: list[tuple[Sequence, int]]) -> list[Sequence]:
        """Compute the shadows' next tokens; append the likeliest token to those that have all theirs."""
        plan = [
            Slice(shadow, count, samples=count == shadow.remaining)
            for shadow, count in ((self._shadows[sequence], count) for sequence, count in parts)
        ]
        if not plan:
            return []
        likeliest = iter(np.argmax(self._runner.forward(build_batch(plan)), axis=1).tolist())
        guessed = []
        for (sequence, count), part in zip(parts, plan, strict=True):
            part.sequence.computed += count
            if part.samples:
                part.sequence.tokens.append(next(likeliest))
                guessed.append(sequence)
        return guessed

    def _extend(self, sequence: Sequence, count: int, busy: Collection[Sequence]) -> bool:
        """Blocks for ``count`` more tokens, if need be those of a shadow that is not in use."""
        shadow = self._shadows[sequence]
        needed = shadow.blocks_for(shadow.computed + count, self._runner.block_size)
        while needed > self._pool.free_count:
            oldest = next(iter(self._shadows))
            if oldest is sequence or oldest in busy:
                return False
            self.forget(oldest)
        shadow.blocks.extend(self._pool.allocate() for _ in range(needed))
        return True
