"""One generation in progress: its tokens, how many of them are in the KV cache, and in which blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_llm.engine import GenerateRequest, Sink, TopLogProbs, Usage

if TYPE_CHECKING:
    from python_llm.engines.paged.beams import BeamSearch
    from python_llm.engines.paged.grammar import Matcher
    from python_llm.engines.paged.sampler import Choice

__all__ = ["Sequence"]


@dataclass(eq=False, slots=True)
class Sequence:
    """``tokens`` is prompt, resumed and generated ids; the first ``computed`` of them have keys and values.

    A request begins as one sequence, which stands for all it will have (``places``); they part when the prompt has
    been computed.
    """

    request: GenerateRequest
    sink: Sink
    arrival: int  # order of arrival; ties between equal priorities go to the earlier
    index: int = field(init=False)
    priority: int = field(init=False)  # the request's, and what waiting has made of it
    places: int = field(init=False)
    tokens: list[int] = field(init=False)
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)  # chained hashes of the full blocks, grown when needed
    computed: int = 0
    cached: int = 0  # prompt tokens found in the prefix cache
    preempted: bool = False
    over: bool = False  # finished or failed
    cancelled: bool = False  # before the engine's thread had it
    matcher: Matcher | None = None
    prompt_scores: list[float] = field(default_factory=list)  # log-probs of the prompt's tokens, from the second
    prompt_tops: list[TopLogProbs] = field(default_factory=list)
    search: BeamSearch | None = None
    score: float = 0.0  # of a beam: the sum of its tokens' adjusted log-probs
    history: tuple[Choice, ...] = ()  # of a beam: its tokens
    acceptance: float = 0.8  # the share of guesses that are kept, as it seems now
    last_draft: int = 0  # how many tokens there were when it was last guessed for
    drafts_proposed: int = 0
    drafts_accepted: int = 0
    blocks_reused: int = 0
    blocks_allocated: int = 0
    first_scheduled_ns: int = 0
    first_token_ns: int = 0
    last_token_ns: int = 0
    slowest_gap_ns: int = 0

    def __post_init__(self) -> None:
        self.index = self.request.first_index
        self.priority = self.request.priority
        self.places = self.request.beam.width if self.request.beam else self.request.sequence_count
        self.tokens = [*self.request.prompt_ids, *self.request.resume_ids]

    @property
    def rank(self) -> tuple[int, int, int]:
        """Lower runs earlier, and is preempted later."""
        return self.priority, self.arrival, self.index

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one can be sampled; 1 while decoding; 0: it waits for its beam's others."""
        return len(self.tokens) - self.computed

    @property
    def output_count(self) -> int:
        return len(self.tokens) - len(self.request.prompt_ids)

    @property
    def is_full(self) -> bool:
        return self.output_count >= self.request.max_tokens

    @property
    def scores_prompt(self) -> bool:
        """Whether logits of prompt tokens are wanted that have not been computed yet."""
        return self.request.prompt_log_probs and len(self.prompt_scores) < len(self.request.prompt_ids) - 1

    def fork(self, index: int) -> Sequence:
        """A copy that goes its own way; who forks adds a reference to each block."""
        child = Sequence(self.request, self.sink, self.arrival)
        child.index, child.places = index, 1
        for name in ("priority", "computed", "cached", "preempted", "prompt_scores", "search", "score", "history"):
            setattr(child, name, getattr(self, name))
        for name in ("blocks_reused", "first_scheduled_ns", "first_token_ns", "last_token_ns"):
            setattr(child, name, getattr(self, name))
        child.tokens, child.blocks, child.hashes = [*self.tokens], [*self.blocks], [*self.hashes]
        child.matcher = self.matcher.fork() if self.matcher else None
        return child

    def usage(self) -> Usage:
        return Usage(
            len(self.request.prompt_ids),
            self.output_count,
            self.cached,
            blocks_reused=self.blocks_reused,
            blocks_allocated=self.blocks_allocated,
            drafts_proposed=self.drafts_proposed,
            drafts_accepted=self.drafts_accepted,
            first_scheduled_ns=self.first_scheduled_ns,
            first_token_ns=self.first_token_ns,
            last_token_ns=self.last_token_ns,
            slowest_gap_ns=self.slowest_gap_ns,
        )

    def blocks_for(self, token_count: int, block_size: int) -> int:
        """How many more blocks hold the first ``token_count`` tokens."""
        return max(0, -(-token_count // block_size) - len(self.blocks))

    def forget_cache(self) -> None:
        """After its blocks were given back: everything must be computed (or found) again."""
        self.blocks = []
        self.computed = 0
        self.preempted = True
