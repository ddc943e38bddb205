"""What a request may ask of the paged engine."""

from __future__ import annotations

from python_llm.engine import Capabilities, GuideKind

__all__ = ["abilities"]

_SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "seed", "repetition_penalty", "presence_penalty"),
    *("frequency_penalty", "no_repeat_ngram_size", "logit_bias", "bad_words"),
)
_MAX_BEAM_WIDTH = 16


def abilities(max_running: int, guides: frozenset[GuideKind]) -> Capabilities:
    """``guides``: the kinds that its grammar compiler takes."""
    return Capabilities(
        sampling=frozenset(_SAMPLING),
        priorities=True,
        resume=True,
        log_probs=True,
        sequences=True,
        max_beam_width=min(_MAX_BEAM_WIDTH, max_running),
        guides=guides,
        cache_salt=True,
    )
