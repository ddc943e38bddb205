"""Prompt lookup: what followed the last few tokens when they were last seen, in the prompt or in the output.

(Saxena 2023, prompt lookup decoding.) It costs a dictionary look-up, and pays where the output copies.
"""

from __future__ import annotations

from python_llm.engines.paged.sequence import Sequence

__all__ = ["PromptLookup"]

_SIZES = (4, 3, 2)  # of the n-grams looked up, longest first


class PromptLookup:
    """A ``Proposer``. Its index of a sequence grows with the sequence."""

    def __init__(self) -> None:
        self._indices: dict[Sequence, _Index] = {}

    def propose(self, wanted: dict[Sequence, int]) -> dict[Sequence, list[int]]:
        return {sequence: self._index(sequence).guess(sequence.tokens, count) for sequence, count in wanted.items()}

    def forget(self, sequence: Sequence) -> None:
        self._indices.pop(sequence, None)

    def close(self) -> None:
        self._indices.clear()

    def _index(self, sequence: Sequence) -> _Index:
        if sequence not in self._indices:
            self._indices[sequence] = _Index()
        return self._indices[sequence]


class _Index:
    """Where each n-gram was last followed by something."""

    def __init__(self) -> None:
        self._follows: dict[tuple[int, ...], int] = {}
        self._known = 0  # n-grams that end before this position are in

    def guess(self, tokens: list[int], count: int) -> list[int]:
        self._grow(tokens)
        for size in _SIZES:
            position = self._follows.get(tuple(tokens[-size:])) if len(tokens) > size else None
            if position is not None:
                return _continued(tokens, position, count)
        return []

    def _grow(self, tokens: list[int]) -> None:
        for end in range(max(self._known, min(_SIZES)), len(tokens)):
            for size in _SIZES:
                if size <= end:
                    self._follows[tuple(tokens[end - size : end])] = end
        self._known = len(tokens)


def _continued(tokens: list[int], position: int, count: int) -> list[int]:
    """The tokens from ``position`` on; past the end it goes round: what repeats goes on repeating."""
    period = len(tokens) - position
    return [tokens[position + i % period] for i in range(count)]
