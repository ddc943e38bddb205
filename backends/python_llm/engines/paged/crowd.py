"""Short steps while one tenant crowds the engine and others come and go.

Who comes waits for the step that runs, and then for its own. So a step of the crowd alone is a part of a full one, and
a step that computes somebody else's prompt carries nothing of the crowd but one token of whoever is first in rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Many

from python_llm.engines.paged.sequence import Sequence

__all__ = ["Crowd"]

_CROWD = 1 / 8  # of the places: who holds more, and most of what runs, is a crowd
_PART = 1 / 8  # of a full step


class Crowd:
    """Sizes steps by who runs. A crowd alone for a while has full steps."""

    def __init__(self, max_running: int, max_num_tokens: int) -> None:
        self._places = max_running
        self._small_step = max(1, int(max_num_tokens * _PART))

    def budget(self, running: Many[Sequence], budget: int) -> int:
        """Tokens of the next step, of at most ``budget``, when others than the crowd are here or expected."""
        crowd = self._tenant(running)
        if crowd is None:
            return budget
        guests = [sequence for sequence in running if sequence.request.tenant != crowd]
        if any(not sequence.first_token_ns for sequence in guests):
            return min(budget, 1 + sum(sequence.remaining for sequence in guests))
        return min(budget, self._small_step)

    def _tenant(self, running: Many[Sequence]) -> str | None:
        held = Counter[str]()
        for sequence in running:
            held[sequence.request.tenant] += sequence.places
        if not held:
            return None
        ((tenant, places),) = held.most_common(1)
        return tenant if places > max(held.total() / 2, self._places * _CROWD) else None
