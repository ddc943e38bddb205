"""How an answer ended, in OpenAI's words."""

from __future__ import annotations

from python_llm.errors import EngineFailure, RequestCancelled

__all__ = ["finish_of"]

# A deadline cuts an answer as a bound of its length does; OpenAI's clients know no other word for it.
_REASONS = {"stop": "stop", "length": "length", "timeout": "length"}


def finish_of(reason: str | None) -> str | None:
    """None while the answer goes on.

    Raises:
        RequestCancelled: somebody ended the request.
        EngineFailure: the engine did.
    """
    if reason is None:
        return None
    if reason in _REASONS:
        return _REASONS[reason]
    if reason == "cancelled":
        raise RequestCancelled("cancelled", "request: it was cancelled at the server; send it again.")
    raise EngineFailure("no_answer", f"request: the server ended it with '{reason}'; send it again.")
