"""What the engine answers where it cannot go on: each says subject, value, rule and remedy."""

from __future__ import annotations

from python_llm.engine import GenerateRequest
from python_llm.engines.paged.sequence import Sequence
from python_llm.errors import EngineFailure, InvalidRequest, ServeError

__all__ = ["closed", "not_finite", "nothing_allowed", "too_long", "too_many"]


def too_long(request: GenerateRequest, most: int) -> InvalidRequest:
    return InvalidRequest(
        "request_too_long",
        f"request '{request.request_id}': {len(request.prompt_ids)} prompt tokens and max_tokens {request.max_tokens}; "
        f"together at most {most}: shorten it.",
    )


def too_many(request: GenerateRequest, places: int, most: int) -> InvalidRequest:
    return InvalidRequest(
        "too_many_sequences",
        f"request '{request.request_id}': {places} sequences; at most {most} run at once: ask for fewer.",
    )


def closed() -> EngineFailure:
    return EngineFailure("engine_closed", "engine: it is closed; ask another server.")


def nothing_allowed(sequence: Sequence) -> ServeError:
    name, matcher = sequence.request.request_id, sequence.matcher
    if matcher is not None and matcher.failure:
        return InvalidRequest("guide_too_complex", f"request '{name}': guide: {matcher.failure}; make it simpler.")
    return InvalidRequest(
        "nothing_allowed",
        f"request '{name}': bad_words, logit_bias, min_tokens and guide leave no token to choose; loosen one of them.",
    )


def not_finite(sequence: Sequence) -> ServeError:
    return EngineFailure(
        "logits_not_finite",
        f"request '{sequence.request.request_id}': the model gave NaN or infinite logits; report the prompt.",
    )
