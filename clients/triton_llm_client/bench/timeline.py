"""The times of one streamed answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from triton_llm_client.bench.load import Answer

__all__ = ["Timeline"]


class Timeline:
    """Create it just before the request is sent, tell it each chunk with text."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._sent = clock()
        self._first = 0.0
        self._last = 0.0
        self._gaps: list[float] = []
        self._tokens = 0

    def saw(self, tokens: int) -> None:
        """A chunk with so many tokens; chunks without any are no sign of an answer."""
        if tokens < 1:
            return
        now = self._clock()
        if self._first:
            self._gaps += [(now - self._last) / tokens] * tokens
        else:
            self._first = now
        self._last = now
        self._tokens += tokens

    def answer(self, tokens: int | None = None, prompt_tokens: int = 0) -> Answer:
        """The answer, ended now. ``tokens``: as the server counted them, where chunks do not tell.

        Then the gaps, which are those between chunks, are shared out evenly over that many tokens.
        """
        gaps = tuple(self._gaps)
        if tokens is not None and gaps and tokens > 1 and tokens != self._tokens:
            share = len(gaps) / (tokens - 1)
            gaps = tuple(gap * share for gap in gaps)
        total = self._clock() - self._sent
        first = self._first - self._sent if self._first else total
        return Answer(self._tokens if tokens is None else tokens, first, total, gaps, prompt_tokens)
