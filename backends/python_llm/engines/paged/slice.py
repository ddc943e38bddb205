"""A sequence's part of a step."""

from __future__ import annotations

from dataclasses import dataclass

from python_llm.engines.paged.sequence import Sequence

__all__ = ["Slice"]


@dataclass(frozen=True, slots=True)
class Slice:
    """The next ``count`` tokens to compute of a sequence; ``samples`` when they are all that remain.

    The last of them may be ``drafts``, guesses that are not the sequence's yet.
    """

    sequence: Sequence
    count: int
    samples: bool
    drafts: tuple[int, ...] = ()

    @property
    def is_prefill(self) -> bool:
        """Whether it computes more than the one token that a decoding sequence has new."""
        return self.count - len(self.drafts) > 1 or not self.sequence.first_token_ns

    @property
    def rows(self) -> int:
        """Of how many of the tokens, the last ones, logits are wanted."""
        return self.count if self.sequence.scores_prompt else int(self.samples) + len(self.drafts)
