"""How a step's tokens are shared among prompts, and how many they are while streams run."""

from __future__ import annotations

from python_llm.engines.paged.sequence import Sequence

__all__ = ["ItlGoal", "share_prefill"]

_LEAST_CHUNK = 16  # tokens; a prompt always moves
_GROWTH = 1.1


class ItlGoal:
    """Sizes steps so that a stream's next token comes within ``seconds``, as far as prefill decides it.

    Too long a step shrinks the next ones in proportion; steps within the goal let them grow again by a tenth.
    ``seconds`` 0: no goal.
    """

    def __init__(self, seconds: float, max_num_tokens: int) -> None:
        self._seconds = seconds
        self._most = max_num_tokens
        self._limit = float(max_num_tokens)

    def budget(self, decoding: int) -> int:
        """Most tokens of the next step, with those of the ``decoding`` sequences."""
        if not decoding or not self._seconds:
            return self._most
        return min(self._most, max(int(self._limit), decoding + _LEAST_CHUNK))

    def learn(self, decoding: int, tokens: int, seconds: float) -> None:
        """A step of that many tokens took so long."""
        if not decoding or tokens == decoding or not self._seconds:
            return  # nobody waited, or there was no prefill to blame
        if seconds > self._seconds:
            self._limit = max(float(_LEAST_CHUNK), tokens * self._seconds / seconds)
        elif tokens >= int(self._limit):
            self._limit = min(float(self._most), self._limit * _GROWTH)


def share_prefill(prompts: list[Sequence], budget: int) -> list[tuple[Sequence, int]]:
    """Divide ``budget`` tokens among prompts sorted by rank.

    The first in line may take half; the rest goes to the prompts with least left to compute. So a short prompt passes
    long ones at once, and the longest one still moves at half speed.
    """
    if not prompts or budget < 1:
        return []
    head = prompts[0]
    grants = {head: min(head.remaining, max(1, budget // 2))}
    budget -= grants[head]
    for sequence in sorted(prompts, key=lambda s: (s.priority, s.remaining, s.arrival)):
        granted = grants.get(sequence, 0)
        extra = min(budget, sequence.remaining - granted)
        if extra:
            grants[sequence] = granted + extra
            budget -= extra
    return [(s, grants[s]) for s in prompts if s in grants]
