"""The life of a request: when it came, waited, was computed in which chunks, lost its blocks, and what was sent.

A ring keeps those that came last. Nothing is written for a token: its steps are counted by the sequence's own times.
No text and no token is kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from python_llm.errors import ServeError
from python_llm.generation import Usage

__all__ = ["MOST_TRACES", "Trace", "TraceRing"]

MOST_TRACES = 512
_MOST_SPANS = 64  # of one request; a prompt of 16,384 tokens has as many chunks
_S = 1e9


@dataclass(slots=True)
class Trace:
    """Times are ``time.monotonic_ns()``; 0: not yet. Each field is written by one thread."""

    request_id: str
    arrival_ns: int
    began: float = field(default_factory=time.time)  # seconds since 1970
    prompt_tokens: int = 0
    queued_ns: int = 0  # handed to the engine
    spans: list[tuple[str, int, int, int]] = field(default_factory=list)  # (what, begin, end, tokens)
    dropped: int = 0  # spans beyond the most
    responses: int = 0
    first_sent_ns: int = 0
    last_sent_ns: int = 0
    usages: tuple[Usage, ...] = ()
    ended_ns: int = 0
    reason: str = ""
    error: str = ""

    def admitted(self, prompt_tokens: int) -> None:
        self.prompt_tokens, self.queued_ns = prompt_tokens, time.monotonic_ns()

    def prefill(self, begin_ns: int, end_ns: int, tokens: int) -> None:
        """The engine computed a chunk of the prompt, or of what it had before it was preempted."""
        self._span(("prefill", begin_ns, end_ns, tokens))

    def preempted(self, tokens: int) -> None:
        """Its blocks went to others; so many tokens' keys and values with them."""
        now = time.monotonic_ns()
        self._span(("preempted", now, now, tokens))

    def sent(self) -> None:
        now = time.monotonic_ns()
        self.responses += 1
        self.first_sent_ns = self.first_sent_ns or now
        self.last_sent_ns = now

    def ended(self, reason: str, error: ServeError | None = None, usages: Sequence[Usage] = ()) -> None:
        self.reason, self.error, self.usages = reason, str(error or ""), tuple(usages)
        self.ended_ns = time.monotonic_ns()

    def to_record(self) -> dict[str, Any]:
        """For people and programs: seconds since the arrival."""
        return {
            "request_id": self.request_id,
            "began": self.began,
            "prompt_tokens": self.prompt_tokens,
            "queued": self._since(self.queued_ns),
            "spans": [
                {"what": what, "at": self._since(begin), "seconds": (end - begin) / _S, "tokens": tokens}
                for what, begin, end, tokens in list(self.spans)
            ],
            "spans_dropped": self.dropped,
            "sequences": [self._sequence(usage) for usage in self.usages],
            "responses": self.responses,
            "first_sent": self._since(self.first_sent_ns),
            "last_sent": self._since(self.last_sent_ns),
            "ended": self._since(self.ended_ns),
            "reason": self.reason,
            "error": self.error,
        }

    def _sequence(self, usage: Usage) -> dict[str, Any]:
        return {
            "output_tokens": usage.output_tokens,
            "cached_prompt_tokens": usage.cached_prompt_tokens,
            "first_scheduled": self._since(usage.first_scheduled_ns),
            "first_token": self._since(usage.first_token_ns),
            "last_token": self._since(usage.last_token_ns),
            "slowest_gap": usage.slowest_gap_ns / _S,
            "drafts_accepted": usage.drafts_accepted,
        }

    def _since(self, moment_ns: int) -> float | None:
        return (moment_ns - self.arrival_ns) / _S if moment_ns else None

    def _span(self, span: tuple[str, int, int, int]) -> None:
        if len(self.spans) < _MOST_SPANS:
            self.spans.append(span)
        else:
            self.dropped += 1


class TraceRing:
    """The latest requests, running ones among them. Any thread may call."""

    def __init__(self, most: int = MOST_TRACES) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Trace] = deque(maxlen=most)

    def begin(self, request_id: str, arrival: float) -> Trace:
        """``arrival`` as time.monotonic()."""
        trace = Trace(request_id, int(arrival * _S))
        with self._lock:
            self._kept.append(trace)
        return trace

    def find(self, request_id: str) -> list[Trace]:
        """Those of that id, oldest first: an id may be used again; without one, those whose id begins so."""
        with self._lock:
            kept = list(self._kept)
        same = [trace for trace in kept if trace.request_id == request_id]
        return same or [trace for trace in kept if trace.request_id.startswith(request_id)]

    def __len__(self) -> int:
        return len(self._kept)
