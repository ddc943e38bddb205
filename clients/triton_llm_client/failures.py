"""Foreign errors become ours once, here, by table.

The backend's own errors travel as text with a ``[CODE reason]`` head and are restored by ``parse_error``. What
Triton's core or the connection says has no head: it is typed by gRPC status code or HTTP status.

    ServeError
     └── Unavailable
          └── ServerUnreachable     no connection, or it broke: names the URL and what to do
"""

from __future__ import annotations

from collections.abc import Mapping

from python_llm.errors import (
    DeadlineExceeded,
    EngineFailure,
    InvalidRequest,
    NotFound,
    RequestCancelled,
    ServeError,
    Unavailable,
    Unsupported,
    parse_error,
)

__all__ = ["BY_GRPC_STATUS", "BY_HTTP_STATUS", "ServerUnreachable", "from_grpc", "from_http", "from_message"]


class ServerUnreachable(Unavailable):
    """There is no connection to the server, or it broke before the answer was complete."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            "unreachable",
            f"server '{url}': {cause}; a Triton server must listen there: start one with 'make serve', or name "
            "another with --url (in Python: url=).",
        )
        self.url = url


# grpc.StatusCode name -> (type, reason) for messages without a head of ours.
BY_GRPC_STATUS: Mapping[str, tuple[type[ServeError], str]] = {
    "CANCELLED": (RequestCancelled, "cancelled"),
    "UNKNOWN": (EngineFailure, "unknown"),
    "INVALID_ARGUMENT": (InvalidRequest, "refused_by_triton"),
    "DEADLINE_EXCEEDED": (DeadlineExceeded, "deadline_exceeded"),
    "NOT_FOUND": (NotFound, "not_found"),
    "ALREADY_EXISTS": (InvalidRequest, "already_exists"),
    "PERMISSION_DENIED": (InvalidRequest, "permission_denied"),
    "RESOURCE_EXHAUSTED": (Unavailable, "resource_exhausted"),
    "FAILED_PRECONDITION": (InvalidRequest, "failed_precondition"),
    "ABORTED": (Unavailable, "aborted"),
    "OUT_OF_RANGE": (InvalidRequest, "out_of_range"),
    "UNIMPLEMENTED": (Unsupported, "unimplemented"),
    "INTERNAL": (EngineFailure, "internal"),
    "UNAVAILABLE": (Unavailable, "unavailable"),
    "DATA_LOSS": (EngineFailure, "data_loss"),
    "UNAUTHENTICATED": (InvalidRequest, "unauthenticated"),
}

BY_HTTP_STATUS: Mapping[int, tuple[type[ServeError], str]] = {
    400: (InvalidRequest, "refused_by_triton"),
    401: (InvalidRequest, "unauthenticated"),
    403: (InvalidRequest, "permission_denied"),
    404: (NotFound, "not_found"),
    429: (Unavailable, "too_many_requests"),
    499: (RequestCancelled, "cancelled"),
    501: (Unsupported, "unimplemented"),
    502: (Unavailable, "bad_gateway"),
    503: (Unavailable, "unavailable"),
    504: (DeadlineExceeded, "deadline_exceeded"),
}

# What Triton 2.50 says of a model it does not have, with INVALID_ARGUMENT, UNAVAILABLE or status 400.
_UNKNOWN_MODEL = ("unknown model", "is not found")
# What it says when the backend's process is gone; of other texts without a head, Triton's core refused the request.
_DEAD_BACKEND = ("Stub process", "stub process", "unhealthy")
# Triton's generate routes count a list of numbers wrongly where the tensor's length is free (2.50; texts are fine).
_NUMBER_LIST = "Shape does not match true shape of 'data' field"


def from_message(message: str) -> ServeError:
    """Type an error of which only the text is known."""
    typed = parse_error(message) or _unknown_model(message)
    if typed is not None:
        return typed
    ours = any(sign in message for sign in _DEAD_BACKEND)
    return EngineFailure("internal", message) if ours else InvalidRequest("refused_by_triton", message)


def from_grpc(url: str, status: str, details: str) -> ServeError:
    """Type a gRPC failure. ``status``: the ``grpc.StatusCode`` name."""
    typed = parse_error(details) or _unknown_model(details)
    if typed is not None:
        return typed
    if status == "UNAVAILABLE":
        return ServerUnreachable(url, details or "no connection")
    kind, reason = BY_GRPC_STATUS.get(status, (EngineFailure, "unknown"))
    return kind(reason, details or status)


def from_http(status: int, message: str) -> ServeError:
    """Type an HTTP answer that is no success."""
    typed = parse_error(message) or _unknown_model(message) or _number_list(message)
    if typed is not None:
        return typed
    kind, reason = BY_HTTP_STATUS.get(status, (EngineFailure, "internal"))
    return kind(reason, message or f"HTTP status {status}")


def _unknown_model(message: str) -> NotFound | None:
    if any(sign in message for sign in _UNKNOWN_MODEL):
        return NotFound("unknown_model", f"{message.rstrip('.')}; name a served model.")
    return None


def _number_list(message: str) -> Unsupported | None:
    if _NUMBER_LIST not in message:
        return None
    return Unsupported(
        "number_list_over_http",
        "input_ids or resume_ids: this Triton's HTTP generate route takes no list of several numbers; use gRPC, or "
        "send the prompt as text.",
    )
