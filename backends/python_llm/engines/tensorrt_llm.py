"""TensorRT-LLM behind the engine protocol: artifact kinds ``tensorrt_llm-engine`` and ``tensorrt_llm-checkpoint``.

Its executor batches in flight; token ids go in and out, and text is the generator's as with any engine. Nothing of the
library is imported before the artifact and the knobs are checked. Never run on a GPU: docs/tensorrt_llm_runtime.md
says what is known and how.
"""

from __future__ import annotations

from typing import get_args

from python_llm.artifact import Artifact
from python_llm.engine import Capabilities, EngineLimits, GuideKind
from python_llm.engines.tensorrt.engine import TensorRtEngine
from python_llm.engines.tensorrt.library import Library
from python_llm.engines.tensorrt.options import Options
from python_llm.errors import CallerMistake, EngineFailure
from python_llm.settings import ServingConfig

__all__ = ["abilities", "load"]

_EVERY_SAMPLER = ("temperature", "top_k", "top_p", "seed")
_TRTLLM_SAMPLER = (
    *("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("no_repeat_ngram_size", "logit_bias", "bad_words"),
)


def load(artifact: Artifact, serving: ServingConfig) -> TensorRtEngine:
    """The engine factory of both kinds."""
    options = Options.read(artifact, serving)
    library = Library(options.backend)
    limits = EngineLimits(
        max_sequence_len=options.max_sequence_len,
        vocab_size=artifact.manifest.model.vocab_size,
        max_running=options.max_running,
        cache_tokens=options.cache_tokens,
    )
    try:
        return TensorRtEngine(library, options, abilities(options, library), limits)
    except (CallerMistake, EngineFailure):
        raise
    except Exception as error:
        raise EngineFailure(
            "engine_not_started", f"TensorRT-LLM {library.version}, artifact '{artifact.path}': {error}"
        ) from error


def abilities(options: Options, library: Library) -> Capabilities:
    """What this version, this build and these options can do; the rest is refused by name at admission."""
    every = options.sampler == "TRTLLMSampler"
    return Capabilities(
        sampling=frozenset((*_EVERY_SAMPLER, *(_TRTLLM_SAMPLER if every else ()))),
        priorities=library.takes_priority,
        resume=True,
        log_probs=options.build.generation_logits,
        sequences=True,
        max_beam_width=max(1, options.build.max_beam_width or int(options.given.get("max_beam_width") or 1)),
        guides=frozenset(get_args(GuideKind)) if options.guided_backend else frozenset(),
        cache_salt=library.takes_cache_salt,
        adapters=tuple(options.adapters.folders),
    )
