"""What a response is written from: the news of its sequences, and the facts of the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from python_llm.engine import GenerateRequest, PromptLogProbs, TopLogProbs, Usage
from python_llm.stream import Delta
from python_llm.token_bytes import TokenBytes

__all__ = ["Part", "RequestFacts"]


@dataclass(frozen=True, slots=True)
class Part:
    """News of sequence ``index``: log-probs and alternatives belong to the delta's ids, where they were asked for."""

    index: int
    delta: Delta
    log_probs: tuple[float, ...]
    top_log_probs: tuple[TopLogProbs, ...]
    log_prob_sum: float  # of the sequence so far
    output_tokens: int  # of the sequence so far
    token_bytes: TokenBytes
    reason: str = ""
    stop_reason: str = ""

    @property
    def ended(self) -> bool:
        return bool(self.reason)

    @property
    def span(self) -> tuple[int, int, int]:
        """For the detokenizer: how many ids of the chunk, bytes of their text to skip, bytes to emit."""
        delta = self.delta
        return len(delta.context) + len(delta.ids), delta.skip, len(delta.text.encode())

    @staticmethod
    def join(parts: Sequence[Part]) -> Part:
        """One part that says what these parts of one sequence say in order."""
        last = parts[-1]
        if len(parts) == 1:
            return last
        return Part(
            last.index,
            Delta.join([part.delta for part in parts]),
            tuple(value for part in parts for value in part.log_probs),
            tuple(top for part in parts for top in part.top_log_probs),
            last.log_prob_sum,
            last.output_tokens,
            last.token_bytes,
            last.reason,
            last.stop_reason,
        )


@dataclass
class RequestFacts:
    """Of all the request's sequences together. ``usages`` are of those that ended."""

    request: GenerateRequest
    arrival_ns: int  # as time.monotonic_ns()
    token_bytes: TokenBytes
    prompt: PromptLogProbs | None = None
    usages: list[Usage] = field(default_factory=list)

    @property
    def input_tokens(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def seed(self) -> int:
        return self.request.sampling.seed

    @property
    def prompt_log_probs(self) -> tuple[float, ...]:
        return self.prompt.log_probs if self.prompt else ()

    @property
    def first_scheduled_ns(self) -> int:
        return min((u.first_scheduled_ns for u in self.usages if u.first_scheduled_ns), default=0)

    @property
    def first_token_ns(self) -> int:
        return min((u.first_token_ns for u in self.usages if u.first_token_ns), default=0)

    @property
    def last_token_ns(self) -> int:
        return max((u.last_token_ns for u in self.usages), default=0)

    @property
    def blocks_reused(self) -> int:
        return sum(u.blocks_reused for u in self.usages)

    @property
    def blocks_allocated(self) -> int:
        return sum(u.blocks_allocated for u in self.usages)

    @property
    def drafts_proposed(self) -> int:
        return sum(u.drafts_proposed for u in self.usages)

    @property
    def drafts_accepted(self) -> int:
        return sum(u.drafts_accepted for u in self.usages)
