"""What the generator answers where it takes no request: each says subject, value, rule and remedy."""

from __future__ import annotations

from python_llm.errors import InvalidRequest, Unavailable

__all__ = ["draining", "duplicate_id", "queue_full"]


def draining() -> Unavailable:
    return Unavailable("draining", "server: it is draining and takes no new requests; ask another server.")


def duplicate_id(request_id: str) -> InvalidRequest:
    return InvalidRequest("duplicate_request_id", f"request id '{request_id}': it is running already; choose another.")


def queue_full(places: int, seconds: float) -> Unavailable:
    """``seconds``: until a place is free, as far as one can tell."""
    return Unavailable(
        "queue_full",
        f"queue: {places} requests wait (max_queue_size); ask again: retry after {seconds:.1f} s.",
    )
