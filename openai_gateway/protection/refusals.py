"""What the protection says no with."""

from __future__ import annotations

import math

from python_llm.errors import InvalidRequest, Unavailable

__all__ = ["Forbidden", "OverLimit", "QuotaSpent", "TooSlow", "Unauthenticated"]


class Unauthenticated(InvalidRequest):
    """401: no key, or none that is known. The text never holds the key."""

    def __init__(self, text: str) -> None:
        super().__init__("unauthenticated", f"API key: {text}; send 'Authorization: Bearer KEY'.")


class Forbidden(InvalidRequest):
    """403: the caller is known, and may not."""

    def __init__(self, text: str) -> None:
        super().__init__("permission_denied", text)


class TooSlow(InvalidRequest):
    """408: the request did not arrive in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__("request_too_slow", f"body: not complete after {seconds:g} s; send it faster.")


class OverLimit(Unavailable):
    """429: in ``seconds`` there is room again."""

    def __init__(self, text: str, seconds: float, reason: str = "too_many_requests") -> None:
        super().__init__(reason, f"{text}; retry after {max(1, math.ceil(seconds))} s.")


class QuotaSpent(OverLimit):
    """429 too, but of a day: OpenAI's clients tell it apart."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text, seconds, "quota_exhausted")
