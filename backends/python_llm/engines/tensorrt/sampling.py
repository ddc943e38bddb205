"""From a GenerateRequest to the library's SamplingParams: docs/tensorrt_llm_runtime.md has the table.

Each sequence of a request is a request of its own there: so one can end alone, each has noise of its own, and several
greedy ones are not refused. Resumed tokens stand behind the prompt.
"""

from __future__ import annotations

import hashlib
from typing import Any

from python_llm.engine import GenerateRequest, Guide
from python_llm.engines.tensorrt.library import Library

__all__ = ["adapted_seed", "library_priority", "sampling_params"]

_GUIDES = {"json_schema": "json", "regex": "regex", "ebnf_grammar": "grammar", "structural_tag": "structural_tag"}
_PRIORITY_SCALE = 8.0


def sampling_params(request: GenerateRequest, index: int, library: Library, vocab_size: int) -> Any:
    """For sequence ``index``, or for all beams."""
    params = library.make(
        "SamplingParams",
        {
            "detokenize": False,
            **_length(request),
            **_choice(request, index),
            **_beams(request),
            **_penalties(request, vocab_size),
            **_told(request),
            **({} if request.guide is None else {"guided_decoding": _guide(request.guide, library)}),
        },
    )
    if words := [word for word in request.sampling.bad_words if len(word) > 1]:
        library.ban(params, words)
    return params


def adapted_seed(seed: int, index: int, resumed: int) -> int:
    """The request's own for the first sequence from its beginning; the library's noise begins with each request."""
    if index == 0 and resumed == 0:
        return seed
    digest = hashlib.blake2b(f"{seed} {index} {resumed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def library_priority(priority: int) -> float:
    """Ours: lower runs earlier, 0 is ordinary. The library's: from 0 to 1, higher runs earlier, 0.5 is ordinary."""
    scaled = priority / _PRIORITY_SCALE
    return 0.5 - 0.5 * scaled / (1.0 + abs(scaled))


def _length(request: GenerateRequest) -> dict[str, Any]:
    """The library knows one end id; the others are stop tokens there. It makes at least one token."""
    resumed = len(request.resume_ids)
    ends = sorted(request.end_ids)
    stops = sorted({*ends[1:], *request.stop_ids} - set(ends[:1]))
    return {
        "max_tokens": max(1, request.max_tokens - resumed),
        "min_tokens": max(0, request.min_tokens - resumed) or None,
        "end_id": ends[0] if ends else 0,
        "pad_id": ends[0] if ends else 0,
        "ignore_eos": not ends,
        "stop_token_ids": stops or None,
    }


def _choice(request: GenerateRequest, index: int) -> dict[str, Any]:
    """Nothing said is greedy there; and of a sampled request all is said, for its own defaults are greedy too."""
    sampling = request.sampling
    if sampling.greedy or request.beam is not None:
        return {}
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p or None,
        "seed": adapted_seed(sampling.seed, index, len(request.resume_ids)),
    }


def _beams(request: GenerateRequest) -> dict[str, Any]:
    beam = request.beam
    if beam is None:
        return {}
    return {
        "use_beam_search": True,
        "n": request.sequence_count,
        "best_of": beam.width,
        "length_penalty": beam.length_penalty,
        "early_stopping": int(beam.early_stopping),
    }


def _penalties(request: GenerateRequest, vocab_size: int) -> dict[str, Any]:
    sampling = request.sampling
    return {
        "repetition_penalty": None if sampling.repetition_penalty == 1.0 else sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty or None,
        "frequency_penalty": sampling.frequency_penalty or None,
        "no_repeat_ngram_size": sampling.no_repeat_ngram_size or None,
        "bad_token_ids": [word[0] for word in sampling.bad_words if len(word) == 1] or None,
        "embedding_bias": _bias(sampling.logit_bias, vocab_size) if sampling.logit_bias else None,
    }


def _bias(biases: tuple[tuple[int, float], ...], vocab_size: int) -> Any:
    """The library wants a tensor over the vocabulary."""
    import torch

    bias = torch.zeros(vocab_size, dtype=torch.float32)
    for token_id, value in biases:
        bias[token_id] = value
    return bias


def _told(request: GenerateRequest) -> dict[str, Any]:
    """At least one alternative is asked for: whether 0 asks for the token's own alone differs by version."""
    top = max(1, request.top_log_probs)
    return {
        "logprobs": top if request.log_probs else None,
        "prompt_logprobs": top if request.prompt_log_probs else None,
    }


def _guide(guide: Guide, library: Library) -> Any:
    if guide.kind == "json":
        return library.make("GuidedDecodingParams", {"json_object": True})
    return library.make("GuidedDecodingParams", {_GUIDES[guide.kind]: guide.text})
