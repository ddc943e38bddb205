"""The engine protocol: what a generator asks of whatever produces tokens.

An engine takes token ids and gives token ids. Text (stop words, detokenisation), admission and deadlines are
the generator's. Third parties may ship engines as entry points of the group ``triton_llm.engines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from python_llm.artifact import Artifact
from python_llm.errors import CallerMistake, EngineFailure
from python_llm.generation import (
    BeamParams,
    Event,
    Failed,
    Finished,
    FinishReason,
    GenerateRequest,
    Guide,
    GuideKind,
    PromptLogProbs,
    SamplingParams,
    Sink,
    Tokens,
    TopLogProbs,
    Usage,
)
from python_llm.settings import ServingConfig

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "BeamParams",
    "Capabilities",
    "Engine",
    "EngineLimits",
    "EngineStats",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "GenerateRequest",
    "Guide",
    "GuideKind",
    "PromptLogProbs",
    "SamplingParams",
    "Scorer",
    "Sink",
    "Tokens",
    "TopLogProbs",
    "Usage",
    "can_score",
    "load",
    "load_scorer",
]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a request may ask of the engine; the generator refuses the rest by name at admission."""

    sampling: frozenset[str] = frozenset()  # names of SamplingParams fields that have an effect
    priorities: bool = False
    resume: bool = False
    log_probs: bool = False  # of sampled tokens with alternatives, and of prompt tokens
    sequences: bool = False  # several sampled sequences of one request
    max_beam_width: int = 1
    guides: frozenset[GuideKind] = frozenset()
    cache_salt: bool = False
    adapters: tuple[str, ...] = ()  # names of LoRA adapters that a request may choose from


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
    host_blocks: int = 0  # of the KV store, in host memory
    disk_blocks: int = 0  # of this model and layout
    store_hits: int = 0  # blocks that a prompt wanted, the pool lacked and host memory had in time
    store_misses: int = 0  # prompts that wanted a block which neither had
    store_loads: int = 0  # blocks brought back; hits beyond them would have cost more than computing
    offloads: int = 0  # blocks that went from the pool to host memory when they were evicted or preempted
    store_errors: int = 0  # damaged or unreadable files, and refusals of the disk
    disk_off: int = 0  # 1: the disk refused, and nothing more is written


class Engine(Protocol):
    """See the module docstring. Every submitted request ends with one Finished per sequence, or one Failed."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def limits(self) -> EngineLimits: ...

    def submit(self, request: GenerateRequest, sink: Sink) -> None:
        """Queue the request and return at once."""

    def cancel(self, request_id: str, index: int | None = None) -> None:
        """End the request, or one of its sequences, with reason ``cancelled``; unknown ones are ignored."""

    def stats(self) -> EngineStats: ...

    def prefix_hashes(self) -> Sequence[bytes]:
        """Hashes of the full blocks that a new prompt could share, made by ``prefix_hash``, those computed last first.

        Empty where the engine has none, or hashes in a way of its own.
        """

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
    "tensorrt_llm-engine": "python_llm.engines.tensorrt_llm:load",
    "tensorrt_llm-checkpoint": "python_llm.engines.tensorrt_llm:load",
}
_WITHOUT_OPTIONS = ("echo", "openvino-ir")
_SCORERS = {
    "openvino-ir": "python_llm.engines.paged.openvino_engine:load_scorer",
    "onnx": "python_llm.scoring.scorer:load_scorer",
    "tensorrt-plan": "python_llm.scoring.scorer:load_scorer",
}


def load(artifact: Path | str, serving: ServingConfig | None = None) -> Engine:
    """Read, verify and start the artifact's engine.

    Raises:
        ArtifactError: the folder is no artifact, was edited, or was built by another version.
        CallerMistake: a knob that this kind of engine does not have.
        EngineFailure: no installed engine serves this kind of artifact.
    """
    opened = Artifact.open(Path(artifact))
    opened.check_runtime()
    serving = serving or ServingConfig()
    if serving.engine_options and opened.kind in _WITHOUT_OPTIONS:
        named = ", ".join(serving.engine_options)
        raise CallerMistake(f"engine_options {named}: an engine of kind {opened.kind} has none; leave them out.")
    engine: Engine = _factory(opened.kind, "triton_llm.engines", _FACTORIES)(opened, serving)
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
