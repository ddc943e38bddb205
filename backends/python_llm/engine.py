"""The engine protocol: what a generator asks of whatever produces tokens.

An engine takes token ids and gives token ids. Text (stop words, detokenisation), admission and deadlines are
the generator's. Third parties may ship engines as entry points of the group ``triton_llm.engines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from python_llm.artifact import Artifact
from python_llm.errors import EngineFailure, ServeError
from python_llm.settings import ServingConfig

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "Capabilities",
    "Engine",
    "EngineLimits",
    "EngineStats",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "GenerateRequest",
    "SamplingParams",
    "Scorer",
    "Sink",
    "Tokens",
    "Usage",
    "can_score",
    "load",
    "load_scorer",
]

FinishReason = Literal["stop", "length", "cancelled", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a request may ask of the engine; the generator refuses the rest by name at admission."""

    sampling: frozenset[str] = frozenset()  # names of SamplingParams fields that have an effect
    priorities: bool = False
    resume: bool = False


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Bounds in tokens. ``max_sequence_len`` bounds prompt plus output; ``cache_tokens`` is the KV cache's room."""

    max_sequence_len: int
    vocab_size: int
    max_running: int
    cache_tokens: int

    @property
    def max_request_tokens(self) -> int:
        """The longest prompt plus output that can ever run alone."""
        return min(self.max_sequence_len, self.cache_tokens)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen.

    ``temperature`` 0 means greedy. ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 mean off. The noise of a token
    depends on (seed, sequence index, position) alone.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0 or self.top_k == 1 or self.top_p == 0.0


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One request, admitted: lengths and parameters are already checked.

    ``resume_ids`` are tokens this request produced earlier, elsewhere: they count for ``max_tokens``, usage and
    random position, and are not sent again. ``end_ids`` end a sequence with reason ``stop`` once ``min_tokens``
    are out; the ending token itself is not part of the output. ``priority``: lower runs earlier.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    resume_ids: tuple[int, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    end_ids: frozenset[int] = frozenset()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a finished sequence; ``output_tokens`` includes resumed ones."""

    prompt_tokens: int
    output_tokens: int
    cached_prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """New tokens of sequence ``index``, in order."""

    index: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """Sequence ``index`` ended; nothing follows for it."""

    index: int
    reason: FinishReason
    usage: Usage


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended by a fault; nothing follows for any of its sequences."""

    error: ServeError


Event = Tokens | Finished | Failed


class Sink(Protocol):
    """Receives a request's events on the engine's thread; must return at once and never raise."""

    def __call__(self, event: Event, /) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot. ``steps`` grows by one with each forward pass: with work waiting, a still counter is a stall."""

    running: int
    waiting: int
    steps: int
    block_size: int = 0
    blocks_used: int = 0
    blocks_total: int = 0
    blocks_cached: int = 0
    prefix_tokens_hit: int = 0
    prefix_tokens_seen: int = 0
    preemptions: int = 0
    drafts_proposed: int = 0
    drafts_accepted: int = 0


class Engine(Protocol):
    """See the module docstring. Every submitted request ends with one Finished per sequence, or one Failed."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def limits(self) -> EngineLimits: ...

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        """Queue the request and return at once."""

    def cancel(self, request_id: str) -> None:
        """End the request with reason ``cancelled`` and free its KV blocks; unknown ids are ignored."""

    def stats(self) -> EngineStats: ...

    def healthy(self) -> bool: ...

    def drain(self, deadline: float) -> None:
        """Return when no request is left, or at ``deadline`` (``time.monotonic()`` seconds) after cancelling them."""

    def close(self) -> None:
        """End every request and the engine's thread; idempotent."""


class Scorer(Protocol):
    """The logits of a given text, from the model exactly as an Engine of the same artifact and knobs runs it."""

    def logits(self, token_ids: Sequence[int]) -> Iterator[npt.NDArray[np.float32]]:
        """Logits [n, vocabulary] behind each token in turn, a prefill chunk at a time; valid until the next one."""


# artifact kind -> "module:factory"; a factory takes (Artifact, ServingConfig) and returns an Engine, or a Scorer.
_FACTORIES = {
    "echo": "python_llm.engines.echo:load",
    "openvino-ir": "python_llm.engines.paged.openvino_engine:load",
}
_SCORERS = {
    "openvino-ir": "python_llm.engines.paged.openvino_engine:load_scorer",
}


def load(artifact: Path | str, serving: ServingConfig | None = None) -> Engine:
    """Read, verify and start the artifact's engine.

    Raises:
        ArtifactError: the folder is no artifact, was edited, or was built by another version.
        EngineFailure: no installed engine serves this kind of artifact.
    """
    opened = Artifact.open(Path(artifact))
    opened.check_runtime()
    engine: Engine = _factory(opened.kind, "triton_llm.engines", _FACTORIES)(opened, serving or ServingConfig())
    return engine


def can_score(kind: str) -> bool:
    """Whether an installed engine scores this kind of artifact."""
    return kind in _SCORERS or any(point.name == kind for point in entry_points(group="triton_llm.scorers"))


def load_scorer(artifact: Artifact, serving: ServingConfig | None = None) -> Scorer:
    """The artifact's scorer. It takes an opened artifact: a build scores what has no artifact.json yet.

    Raises:
        ArtifactError: the artifact was built by another version.
        EngineFailure: no installed engine scores this kind of artifact.
    """
    artifact.check_runtime()
    scorer: Scorer = _factory(artifact.kind, "triton_llm.scorers", _SCORERS)(artifact, serving or ServingConfig())
    return scorer


def _factory(kind: str, group: str, own: Mapping[str, str]) -> Callable[[Artifact, ServingConfig], Any]:
    found = {point.name: point for point in entry_points(group=group)}
    if kind in found:
        loaded: Callable[[Artifact, ServingConfig], Any] = found[kind].load()
        return loaded
    if kind not in own:
        known = ", ".join(sorted({*found, *own}))
        raise EngineFailure("no_engine", f"artifact kind '{kind}': no engine serves it; known kinds: {known}.")
    module, _, name = own[kind].partition(":")
    factory: Callable[[Artifact, ServingConfig], Any] = getattr(import_module(module), name)
    return factory
