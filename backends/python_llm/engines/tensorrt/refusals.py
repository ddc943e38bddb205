"""What an admitted request may still ask that this engine, as built, cannot do: each is refused by name."""

from __future__ import annotations

from python_llm.engine import GenerateRequest
from python_llm.engines.tensorrt.library import OF_A_REQUEST, Library
from python_llm.engines.tensorrt.options import Options
from python_llm.errors import EngineFailure, InvalidRequest, ServeError, Unsupported

__all__ = ["broken", "closed", "of_the_library", "refusal"]


def refusal(request: GenerateRequest, options: Options, library: Library) -> ServeError | None:
    """Why the request cannot run at all; None where it can."""
    prompt = len(request.prompt_ids) + len(request.resume_ids)
    total = len(request.prompt_ids) + request.max_tokens
    if prompt > options.max_input_len or total > options.max_sequence_len:
        return InvalidRequest(
            "request_too_long",
            f"request '{request.request_id}': {prompt} prompt tokens and max_tokens {request.max_tokens}; the engine "
            f"takes {options.max_input_len} of prompt and {options.max_sequence_len} together: shorten it.",
        )
    if request.prompt_log_probs and not options.build.context_logits:
        return _lacking("return_prompt_log_probs", "the engine was built without gather_context_logits")
    if any(len(word) > 1 for word in request.sampling.bad_words) and not library.bans_words:
        return _lacking("bad_words", f"TensorRT-LLM {library.version} bans single tokens, and a word here has several")
    if request.guide is not None and request.resume_ids:
        return _lacking("resume_ids with a guide", "TensorRT-LLM begins its grammar anew with each request")
    if request.beam is not None and (request.log_probs or request.resume_ids):
        return _lacking("beam_width with log-probs or resume_ids", "the adapter has no beams of that kind")
    return None


def closed() -> EngineFailure:
    return EngineFailure("engine_closed", "engine: it is closed; ask another server.")


def broken(error: BaseException) -> EngineFailure:
    return EngineFailure("engine_failed", f"TensorRT-LLM: {error or repr(error)}; the request was lost.")


def of_the_library(request_id: str, error: BaseException) -> ServeError:
    """One request's own error: refused when it was handed over, or failed while it ran."""
    if isinstance(error, ServeError):
        return error
    if isinstance(error, OF_A_REQUEST):
        return InvalidRequest("refused_by_library", f"request '{request_id}': TensorRT-LLM refuses it: {error}.")
    return EngineFailure("request_failed", f"request '{request_id}': TensorRT-LLM: {error}.")


def _lacking(what: str, why: str) -> Unsupported:
    return Unsupported("not_supported", f"{what}: {why}; leave it out.")
