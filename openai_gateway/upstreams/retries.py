"""What an error says about going on: whether another server may be asked, and whether this one is to blame."""

from __future__ import annotations

from python_llm.errors import DeadlineExceeded, EngineFailure, NotFound, RequestCancelled, ServeError, Unavailable
from triton_llm_client import ServerUnreachable

__all__ = ["ended_by_the_server", "is_to_blame", "may_go_elsewhere", "never_arrived"]


def may_go_elsewhere(error: ServeError) -> bool:
    """The request itself is sound: another server, or this one later, may answer it."""
    if isinstance(error, NotFound):
        return error.reason == "unknown_model"  # unloaded here, or being loaded again
    if isinstance(error, RequestCancelled):
        return not isinstance(error, DeadlineExceeded)
    return isinstance(error, (Unavailable, EngineFailure))


def is_to_blame(error: ServeError) -> bool:
    """It broke; a server that is full, drains or lacks the model did not."""
    return isinstance(error, (ServerUnreachable, EngineFailure))


def ended_by_the_server(finish_reason: str | None) -> bool:
    """Nobody here asked for such an end: the server cuts what runs when it stops."""
    return finish_reason in ("cancelled", "error")


def never_arrived(error: ServeError) -> bool:
    """No connection was made: whatever is wrong with the server, it is not the request's doing."""
    return isinstance(error, ServerUnreachable) and "failed to connect" in error.text.lower()
