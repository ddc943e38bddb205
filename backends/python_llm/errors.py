"""The error every route understands.

The message is all that survives each of Triton's routes (HTTP generate answers 400 for everything), so a
message begins with a head a program can read::

    [INVALID_ARG max_tokens_too_large] max_tokens 9000: at most 8064 fit ... ; ask for fewer tokens.
     ^code       ^reason               ^subject, value, rule, remedy

The tree::

    ServeError
     ├── InvalidRequest     the caller's mistake            INVALID_ARG   HTTP 400
     ├── NotFound           no such request or model        NOT_FOUND     HTTP 404
     ├── Unavailable        not now: full, draining         UNAVAILABLE   HTTP 503
     ├── RequestCancelled   ended at the caller's wish      CANCELLED     HTTP 499
     ├── DeadlineExceeded   ended by its own deadline       CANCELLED     HTTP 504
     ├── Unsupported        this engine cannot do it        UNSUPPORTED   HTTP 501
     └── EngineFailure      ours                            INTERNAL      HTTP 500

    CallerMistake           outside a request: a folder, a file, a setting the caller must change

``exit_code`` is what a command returns for each: 2 for the caller's mistake, 1 for ours.
"""

from __future__ import annotations

import re

__all__ = [
    "CallerMistake",
    "DeadlineExceeded",
    "EngineFailure",
    "InvalidRequest",
    "NotFound",
    "RequestCancelled",
    "ServeError",
    "Unavailable",
    "Unsupported",
    "parse_error",
]


class CallerMistake(Exception):
    """What a command was given cannot work; the text says subject, value, rule and remedy."""

    exit_code = 2


class ServeError(Exception):
    """An error with a Triton code and a machine-readable reason; ``str()`` is the wire text."""

    code = "INTERNAL"
    http_status = 500
    exit_code = 1

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"[{self.code} {reason}] {text}")
        self.reason = reason
        self.text = text


class InvalidRequest(ServeError):
    """The caller asked for something the rules forbid; asking again unchanged fails again."""

    code = "INVALID_ARG"
    http_status = 400
    exit_code = 2


class NotFound(ServeError):
    """The request names something that does not exist."""

    code = "NOT_FOUND"
    http_status = 404
    exit_code = 2


class Unavailable(ServeError):
    """The server cannot take the request now; asking later may succeed."""

    code = "UNAVAILABLE"
    http_status = 503

    @property
    def retry_after(self) -> float | None:
        """Seconds after which to ask again, where the text says so ("retry after 1.2 s")."""
        said = _RETRY_AFTER.search(self.text)
        return float(said["seconds"]) if said else None


class RequestCancelled(ServeError):
    """The request ended because its caller left or asked for it to stop."""

    code = "CANCELLED"
    http_status = 499


class DeadlineExceeded(RequestCancelled):
    """The request ended because its own deadline passed before it could begin."""

    http_status = 504


class Unsupported(ServeError):
    """The request is well formed, and this engine cannot do what it asks."""

    code = "UNSUPPORTED"
    http_status = 501
    exit_code = 2


class EngineFailure(ServeError):
    """Something on our side broke; the request was not at fault."""


_REASONS_OF_THEIR_OWN: dict[str, type[ServeError]] = {"deadline_exceeded": DeadlineExceeded}
_BY_CODE: dict[str, type[ServeError]] = {
    kind.code: kind for kind in (InvalidRequest, NotFound, Unavailable, RequestCancelled, Unsupported, EngineFailure)
}
_HEAD = re.compile(rf"\[(?P<code>{'|'.join(_BY_CODE)}) (?P<reason>[a-z0-9_]+)\] (?P<text>.*)", re.DOTALL)
_RETRY_AFTER = re.compile(r"\bretry after (?P<seconds>\d+(?:\.\d+)?) s\b")


def parse_error(message: str) -> ServeError | None:
    """Return the typed error whose wire text stands in ``message``, or None where there is none.

    Triton's clients put text of their own around a backend's message, so the head is searched for anywhere.
    """
    match = _HEAD.search(message)
    if match is None:
        return None
    kind = _BY_CODE[match["code"]]
    narrower = _REASONS_OF_THEIR_OWN.get(match["reason"], kind)
    return (narrower if issubclass(narrower, kind) else kind)(match["reason"], match["text"])
