"""What is asked of an engine and what it tells: requests and events, in token ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from python_llm.errors import ServeError

if TYPE_CHECKING:
    from python_llm.trace import Trace

__all__ = [
    "BeamParams",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "GenerateRequest",
    "Guide",
    "GuideKind",
    "PromptLogProbs",
    "SamplingParams",
    "Sink",
    "Tokens",
    "TopLogProbs",
    "Usage",
]

GuideKind = Literal["json", "json_schema", "regex", "ebnf_grammar", "structural_tag"]
FinishReason = Literal["stop", "length", "cancelled", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen.

    ``temperature`` 0 means greedy. ``top_k`` 0, ``top_p`` 1, ``min_p`` 0, ``repetition_penalty`` 1, the other
    penalties 0 and ``no_repeat_ngram_size`` 0 mean off. ``logit_bias`` is (token id, what is added to its logit);
    ``bad_words`` are token sequences that may not be completed. The repetition penalty and n-grams look at prompt and
    output, presence and frequency at the output alone. The noise of a token depends on (seed, sequence index,
    position) alone.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0 or self.top_k == 1 or self.top_p == 0.0


@dataclass(frozen=True, slots=True)
class BeamParams:
    """Beam search with ``width`` beams, as transformers' beam search does it.

    A finished beam's score is the sum of its log-probs / length ** ``length_penalty``. ``early_stopping``: end as soon
    as ``width`` beams are finished; else when no running beam can be better than the worst finished one.
    """

    width: int
    length_penalty: float = 1.0
    early_stopping: bool = False


@dataclass(frozen=True, slots=True)
class Guide:
    """A grammar that the output must follow: the text of a JSON schema, regex, EBNF grammar or structural tag."""

    kind: GuideKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One request, admitted: lengths and parameters are already checked.

    ``resume_ids`` are tokens this request produced earlier, elsewhere: they count for ``max_tokens``, usage,
    penalties, the guide and random position, and are not sent again. ``end_ids`` and ``stop_ids`` end a sequence with
    reason ``stop`` once ``min_tokens`` are out; the ending token itself is not part of the output. ``priority``: lower
    runs earlier. ``sequence_count`` sequences are made, with the indices from ``first_index``; with ``beam`` they are
    the best beams, best first. ``max_tokens`` 0 with ``prompt_log_probs``: the prompt is computed and no token made.
    ``cache_salt``: only requests of the same salt share cached prompt blocks. ``adapter``: the name of a LoRA adapter,
    one of the engine's; empty: the model alone. ``trace``: where an engine that can tells the request's life.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    resume_ids: tuple[int, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    end_ids: frozenset[int] = frozenset()
    stop_ids: frozenset[int] = frozenset()
    priority: int = 0
    tenant: str = ""
    sequence_count: int = 1
    first_index: int = 0
    beam: BeamParams | None = None
    log_probs: bool = False
    top_log_probs: int = 0  # alternatives told for each token, likeliest first; with log_probs or prompt_log_probs
    prompt_log_probs: bool = False
    guide: Guide | None = None
    cache_salt: str = ""
    adapter: str = ""
    trace: Trace | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of a finished sequence; ``output_tokens`` includes resumed ones.

    Times are ``time.monotonic_ns()``; 0: never.
    """

    prompt_tokens: int
    output_tokens: int
    cached_prompt_tokens: int = 0
    blocks_reused: int = 0  # KV blocks found in the prefix cache
    blocks_allocated: int = 0  # KV blocks taken new
    drafts_proposed: int = 0
    drafts_accepted: int = 0
    first_scheduled_ns: int = 0
    first_token_ns: int = 0
    last_token_ns: int = 0
    slowest_gap_ns: int = 0  # between two tokens


# Alternatives of one token: (token id, natural log of its probability), likeliest first.
TopLogProbs = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """New tokens of sequence ``index``, in order.

    ``log_probs`` (natural, of the model's own distribution: before temperature, penalties, bias and guide) and
    ``top_log_probs`` have an entry for each id where the request asked for them, else none.
    """

    index: int
    ids: tuple[int, ...]
    log_probs: tuple[float, ...] = ()
    top_log_probs: tuple[TopLogProbs, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptLogProbs:
    """Of each prompt token but the first, once, before the first Tokens; fields as in Tokens."""

    log_probs: tuple[float, ...]
    top_log_probs: tuple[TopLogProbs, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """Sequence ``index`` ended; nothing follows for it. ``stop_id``: the end or stop token that ended it."""

    index: int
    reason: FinishReason
    usage: Usage
    stop_id: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended by a fault; nothing follows for any of its sequences."""

    error: ServeError


Event = Tokens | PromptLogProbs | Finished | Failed


class Sink(Protocol):
    """Receives a request's events on the engine's thread; must return at once and never raise."""

    def __call__(self, event: Event, /) -> None: ...
