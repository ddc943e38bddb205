"""What can be set about the servers behind the gateway."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from python_llm.errors import CallerMistake

__all__ = ["UpstreamSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """Seconds where a name says so. ``weights``: model -> version -> share of its requests."""

    health_seconds: float = 1.0  # between two looks at a server
    health_timeout_seconds: float = 2.0  # for one look
    missed_looks: int = 3  # in a row without an answer: the server is gone, and its streams go on elsewhere
    resolve_seconds: float = 10.0  # between two resolutions of a DNS name
    facts_seconds: float = 10.0  # between two readings of a server's models
    breaker_failures: int = 5  # in a row: the server is asked no more
    breaker_seconds: float = 5.0  # and then once again
    retry_seconds: float = 5.0  # a request of which nothing was streamed waits so long for a place, as servers hint
    resume_seconds: float = 60.0  # a broken stream looks so long for a server that continues it
    hold_seconds: float = 0.0  # while no server is up, a new request waits so long for one; 0: it is refused at once
    hold_requests: int = 256  # that may wait so; more are refused at once
    most_failures: int = 3  # servers that may fail under one request before it is the request's end
    load_bound: float = 1.25  # of the mean load: so much may be on the server that has a prompt's beginning
    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("health_seconds", "health_timeout_seconds", "resolve_seconds", "facts_seconds"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in ("missed_looks", "breaker_failures", "most_failures", "load_bound"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("breaker_seconds", "retry_seconds", "resume_seconds", "hold_seconds", "hold_requests"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for model, weights in self.weights.items():
            if not weights or min(weights.values()) < 0 or not 0 < sum(weights.values()) < math.inf:
                raise CallerMistake(
                    f"weights of '{model}': {dict(weights)}; they must be 0 or more, and one above 0: VERSION:SHARE."
                )


def _require(holds: bool, name: str, value: float, rule: str) -> None:
    if not holds:
        raise CallerMistake(f"--{name.replace('_', '-')} {value:g}: it must be {rule}.")
