"""Errors of ours in OpenAI's shape: status, type, code and the parameter at fault, by table.

What the generator refuses comes typed (``python_llm.errors``); its words name inputs as the contract does, and are
told here with the names that OpenAI's clients know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from python_llm.errors import InvalidRequest, NotFound, RequestCancelled, ServeError, Unavailable, Unsupported

__all__ = ["BodyTooLarge", "UnknownModel", "error_body", "retry_after", "status_of"]

_SECONDS = 1.0  # to wait where the server does not say how long

# reason -> status, where the type alone does not say it.
_STATUS: Mapping[str, int] = {
    "queue_full": 429,
    "too_many_requests": 429,
    "unauthenticated": 401,
    "permission_denied": 403,
    "body_too_large": 413,
    "request_too_slow": 408,
    "quota_exhausted": 429,
}
# reason -> OpenAI's code for the same.
_CODES: Mapping[str, str] = {
    "prompt_too_long": "context_length_exceeded",
    "request_too_long": "context_length_exceeded",
    "max_tokens_too_large": "context_length_exceeded",
    "unknown_model": "model_not_found",
    "unauthenticated": "invalid_api_key",
    "too_many_requests": "rate_limit_exceeded",
    "quota_exhausted": "insufficient_quota",
}
_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
# input of the contract -> OpenAI's field.
_FIELDS: Mapping[str, str] = {
    "text_input": "prompt",
    "input_ids": "prompt",
    "num_return_sequences": "n",
    "stop_words": "stop",
    "stop_word": "stop",
    "top_log_probs": "top_logprobs",
    "return_log_probs": "logprobs",
    "guided_decoding_guide": "response_format",
    "guided_decoding_guide_type": "response_format",
}
_SUBJECT = re.compile(r"\w+")
_PARAM = re.compile(r"[a-z_]+(?:[.\[]|\b)")


class UnknownModel(NotFound):
    """``model`` is none of ``known``."""

    def __init__(self, model: str, known: Sequence[str]) -> None:
        names = ", ".join(known) or "none is served now"
        super().__init__("unknown_model", f"model '{model[:80]}': it does not exist; known models: {names}.")


class BodyTooLarge(InvalidRequest):
    def __init__(self, limit: int) -> None:
        super().__init__("body_too_large", f"body: more than {limit} bytes; send a shorter one.")


def status_of(error: ServeError) -> int:
    if isinstance(error, Unsupported):
        return 400  # well formed, and asking again unchanged fails again: OpenAI says the same of its models
    return _STATUS.get(error.reason, error.http_status)


def retry_after(error: ServeError) -> str | None:
    """The header's value, in whole seconds; None where asking again does not help."""
    if not isinstance(error, Unavailable):
        return None
    seconds = _SECONDS if error.retry_after is None else error.retry_after
    return str(max(1, math.ceil(seconds)))


def error_body(error: ServeError, *, param: str | None = None) -> dict[str, Any]:
    """``{"error": {message, type, param, code}}``."""
    status = status_of(error)
    subject, text = _in_openai_words(error.text)
    kind = _TYPES.get(status, "invalid_request_error" if status < 499 else "server_error")
    if isinstance(error, RequestCancelled):
        kind = "server_error"
    code = _CODES.get(error.reason, error.reason)
    at_fault = param or (subject if status == 400 else "model" if error.reason == "unknown_model" else None)
    return {"error": {"message": text, "type": kind, "param": at_fault, "code": code}}


def _in_openai_words(text: str) -> tuple[str | None, str]:
    """The field that the text begins with, if it is one, and the text with OpenAI's names."""
    told = _SUBJECT.sub(lambda word: _FIELDS.get(word[0], word[0]), text)
    head = told.partition(":")[0].split(" ")[0]
    return (head if _PARAM.match(head) and head != "request" else None), told
