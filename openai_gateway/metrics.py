"""What Prometheus finds at the gateway's ``/metrics``; docs/gateway.md has the table.

Labels are bounded: models are those that were served, tenants the first ``MOST_TENANTS``, the rest is ``other``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CONTENT_TYPE", "MOST_TENANTS", "OTHER", "GatewayMetrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_TENANTS = 100
OTHER = "other"
_P = "triton_llm_gateway"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_BREAKER_STATES = ("closed", "half-open", "open")


class Watched(Protocol):
    """A server whose gauges are read when Prometheus asks."""

    @property
    def name(self) -> str: ...

    @property
    def running(self) -> int: ...

    @property
    def load(self) -> float: ...

    @property
    def trouble(self) -> str: ...


class GatewayMetrics:
    """Counts in a registry of its own; used on the event loop alone."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._models: set[str] = set()
        self._tenants: set[str] = set()
        self._requests = self._counter("requests", "Requests that ended, by how.", "model", "outcome")
        self._first = self._histogram("time_to_first_token_seconds", "From a request to its first text.")
        self._whole = self._histogram("request_seconds", "From a request to the end of its answer.")
        self._retries = self._counter(
            "retries", "Requests that were sent again before anything was streamed, by what made it so.", "reason"
        )
        self._resumed = self._counter(
            "resumed_streams", "Sequences that went on at another server, by what ended the first.", "reason"
        )
        self._lost = self._counter("lost_streams", "Streams that ended in an error after their first text.", "reason")
        self._tokens = self._counter("tokens", "Tokens of answered requests: prompt, completion.", "tenant", "kind")
        self._breaker = self._gauge("breaker_state", "1 for the state that a server's breaker is in.", "state")
        self._opened = self._counter("breaker_opened", "Times that a server's breaker opened.", "server")
        self._up = self._gauge("server_ready", "1 where the server takes requests.")
        self._running = self._gauge("server_streams", "Streams that are read from the server now.")
        self._held = Gauge(f"{_P}_held_requests", "Requests that wait for a server to come.", registry=self.registry)
        self._load = self._gauge("server_load_tokens", "Tokens that its requests still have to compute, by estimate.")

    def render(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)

    def know_models(self, names: Collection[str]) -> None:
        """Names that may stand in labels."""
        self._models.update(names)

    def first_text(self, model: str, seconds: float) -> None:
        self._first.labels(self._model(model)).observe(seconds)

    def ended(self, model: str, outcome: str, seconds: float) -> None:
        """``outcome``: the finish reason, ``left``, or the code of the error it ended in."""
        self._requests.labels(self._model(model), outcome.lower()).inc()
        self._whole.labels(self._model(model)).observe(seconds)

    def used(self, tenant: str, prompt_tokens: int, completion_tokens: int) -> None:
        label = self._tenant(tenant)
        self._tokens.labels(label, "prompt").inc(prompt_tokens)
        self._tokens.labels(label, "completion").inc(completion_tokens)

    def retried(self, reason: str) -> None:
        self._retries.labels(reason).inc()

    def resumed(self, reason: str) -> None:
        self._resumed.labels(reason).inc()

    def lost(self, reason: str) -> None:
        self._lost.labels(reason).inc()

    def breaker_changed(self, server: str, state: str) -> None:
        for each in _BREAKER_STATES:
            self._breaker.labels(server, each).set(each == state)
        if state == "open":
            self._opened.labels(server).inc()

    def watch_held(self, count: Callable[[], float]) -> None:
        self._held.set_function(count)

    def watch_server(self, server: Watched) -> None:
        self.breaker_changed(server.name, "closed")
        self._opened.labels(server.name)
        gauges: tuple[tuple[Gauge, Callable[[], float]], ...] = (
            (self._up, lambda: not server.trouble),
            (self._running, lambda: server.running),
            (self._load, lambda: server.load),
        )
        for gauge, read in gauges:
            gauge.labels(server.name).set_function(read)

    def forget_server(self, server: Watched) -> None:
        for each in _BREAKER_STATES:
            self._breaker.remove(server.name, each)
        for gauge in (self._up, self._running, self._load):
            gauge.remove(server.name)

    def _model(self, name: str) -> str:
        return name if name in self._models else OTHER

    def _tenant(self, name: str) -> str:
        if name not in self._tenants and len(self._tenants) < MOST_TENANTS:
            self._tenants.add(name)
        return name if name in self._tenants else OTHER

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_P}_{name}", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"{_P}_{name}", meaning, ("server", *labels), registry=self.registry)

    def _histogram(self, name: str, meaning: str) -> Histogram:
        return Histogram(f"{_P}_{name}", meaning, ("model",), registry=self.registry, buckets=_SECONDS)
