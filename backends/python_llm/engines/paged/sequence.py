"""One generation in progress: its tokens, how many of them are in the KV cache, and in which blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from python_llm.engine import GenerateRequest, Sink, Usage

__all__ = ["Sequence"]


@dataclass(eq=False, slots=True)
class Sequence:
    """``tokens`` is prompt, resumed and generated ids; the first ``computed`` of them have keys and values."""

    request: GenerateRequest
    sink: Sink
    arrival: int  # order of arrival; ties between equal priorities go to the earlier
    tokens: list[int] = field(init=False)
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)  # chained hashes of the full blocks, grown when needed
    computed: int = 0
    cached: int = 0  # prompt tokens found in the prefix cache
    preempted: bool = False

    def __post_init__(self) -> None:
        self.tokens = [*self.request.prompt_ids, *self.request.resume_ids]

    @property
    def rank(self) -> tuple[int, int]:
        """Lower runs earlier, and is preempted later."""
        return self.request.priority, self.arrival

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one can be sampled; 1 while decoding."""
        return len(self.tokens) - self.computed

    @property
    def output_count(self) -> int:
        return len(self.tokens) - len(self.request.prompt_ids)

    @property
    def is_full(self) -> bool:
        return self.output_count >= self.request.max_tokens

    def usage(self) -> Usage:
        return Usage(len(self.request.prompt_ids), self.output_count, self.cached)

    def blocks_for(self, token_count: int, block_size: int) -> int:
        """How many more blocks hold the first ``token_count`` tokens."""
        return max(0, -(-token_count // block_size) - len(self.blocks))

    def forget_cache(self) -> None:
        """After its blocks were given back: everything must be computed (or found) again."""
        self.blocks = []
        self.computed = 0
        self.preempted = True
