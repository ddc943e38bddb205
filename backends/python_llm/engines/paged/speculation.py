"""Speculation: guess the next tokens, compute them together, keep those that would have come anyway.

A guess is kept when it is the very token that is drawn at its place, with that place's own noise. So the text is the
one without speculation, token by token, greedy or sampled; for a proposer that names one token with certainty this
is rejection sampling too: a guess x is kept with probability p(x). (Leviathan et al. 2023, with q(x) = 1.)

How many guesses pay: a step of T tokens takes about a + b T seconds, both learned. With B sequences in it, one more
token costs b while a token is worth (a + b B) / B seconds; a guess that is kept with probability r ** i pays while
r ** i > b B / (a + b B). r is each sequence's own, and decays towards what it last showed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from python_llm.engines.paged.sequence import Sequence

__all__ = ["Proposer", "Speculation", "StepCost", "guess_limits"]

_MOST = 16  # guesses of one sequence in one step
_MEMORY = 0.8  # of the acceptance rate, for each guess judged
_RETRY = 32  # tokens after which a sequence whose guesses failed may try one again


class Proposer(Protocol):
    """Where guesses come from."""

    def propose(self, wanted: dict[Sequence, int]) -> dict[Sequence, list[int]]:
        """At most that many next tokens of each sequence; none where there is no idea."""

    def forget(self, sequence: Sequence) -> None:
        """The sequence ended."""

    def close(self) -> None:
        """Give back memory; nothing is proposed any more."""


class StepCost:
    """Seconds of a step as a + b T, by least squares over recent steps (exponential forgetting)."""

    def __init__(self, memory: float = 0.98) -> None:
        self._memory = memory
        self._n = self._t = self._s = self._tt = self._ts = 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        for name, value in (
            ("_n", 1.0),
            ("_t", tokens),
            ("_s", seconds),
            ("_tt", tokens**2),
            ("_ts", tokens * seconds),
        ):
            setattr(self, name, self._memory * getattr(self, name) + value)

    def price(self, batch: int) -> float:
        """What a token more costs, as a part of what a token of a step of ``batch`` tokens costs: 0 to 1."""
        spread = self._n * self._tt - self._t**2
        if spread <= 1e-9 * self._tt * self._n:
            return 0.2  # all steps were alike so far: a guess, to learn from
        slope = (self._n * self._ts - self._t * self._s) / spread
        base = (self._s - slope * self._t) / self._n
        if slope <= 0:
            return 0.02
        return min(1.0, slope * batch / max(slope * batch, base + slope * batch))


class Speculation:
    """Decides how much is guessed; used by the engine's thread alone. ``proposer`` None: nothing is."""

    def __init__(self, proposer: Proposer | None, cost: StepCost | None = None) -> None:
        self._proposer = proposer
        self._cost = cost or StepCost()
        self.proposed = 0
        self.accepted = 0

    def drafts(self, limits: dict[Sequence, int], batch: int, budget: int) -> dict[Sequence, list[int]]:
        """Guesses for the sequences; ``limits`` says how many each may have, ``budget`` how many all."""
        if self._proposer is None or not limits or budget < 1:
            return {}
        price = self._cost.price(batch)
        wanted = {s: min(limit, self._paying(s, price), budget // len(limits) or 1) for s, limit in limits.items()}
        found = self._proposer.propose({s: count for s, count in wanted.items() if count > 0})
        drafts: dict[Sequence, list[int]] = {}
        for sequence, ids in found.items():
            if ids and budget >= len(ids):
                drafts[sequence] = ids
                budget -= len(ids)
        return drafts

    def learn(self, sequence: Sequence, proposed: int, accepted: int) -> None:
        """So many guesses were made, and the first so many kept."""
        self.proposed += proposed
        self.accepted += accepted
        sequence.drafts_proposed += proposed
        sequence.drafts_accepted += accepted
        for kept in [1.0] * accepted + [0.0] * (accepted < proposed):
            sequence.acceptance = _MEMORY * sequence.acceptance + (1.0 - _MEMORY) * kept
        sequence.last_draft = len(sequence.tokens)

    def learn_step(self, tokens: int, seconds: float) -> None:
        self._cost.learn(tokens, seconds)

    def forget(self, sequence: Sequence) -> None:
        if self._proposer is not None:
            self._proposer.forget(sequence)

    def close(self) -> None:
        if self._proposer is not None:
            self._proposer.close()

    def _paying(self, sequence: Sequence, price: float) -> int:
        rate = min(sequence.acceptance, 0.999)
        if rate > price:
            return max(1, min(_MOST, int(math.log(max(price, 1e-6)) / math.log(rate))))
        return int(len(sequence.tokens) - sequence.last_draft >= _RETRY)


def guess_limits(decoding: Iterable[Sequence]) -> dict[Sequence, int]:
    """How many guesses each may have: none for beams, nor before its first token; the last token needs none."""
    return {
        sequence: max(0, sequence.request.max_tokens - sequence.output_count - 1)
        for sequence in decoding
        if sequence.search is None and sequence.first_token_ns > 0
    }
