"""Text-level stop words: an Aho-Corasick automaton, fed character by character.

The depth of the current state is the number of characters that may still turn out to begin a stop word: that
much text must be held back, and not a character more. (Aho and Corasick, 1975.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["StopWords"]


class StopWords:
    """Immutable once built; ``step`` maps (state, character) to the next state. State 0 is the start."""

    def __init__(self, words: Iterable[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._fail: list[int] = [0]
        self.depth: list[int] = [0]
        self.matched: list[str | None] = [None]  # the longest word that ends in this state
        for word in words:
            self._insert(word)
        self._link()

    def step(self, state: int, char: str) -> int:
        while state and char not in self._next[state]:
            state = self._fail[state]
        return self._next[state].get(char, 0)

    def _insert(self, word: str) -> None:
        state = 0
        for char in word:
            if char not in self._next[state]:
                self._next[state][char] = len(self._next)
                self._next.append({})
                self._fail.append(0)
                self.depth.append(self.depth[state] + 1)
                self.matched.append(None)
            state = self._next[state][char]
        if word:
            self.matched[state] = word

    def _link(self) -> None:
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            for char, child in self._next[state].items():
                self._fail[child] = self.step(self._fail[state], char)
                queue.append(child)
            if self.matched[state] is None:
                self.matched[state] = self.matched[self._fail[state]]
