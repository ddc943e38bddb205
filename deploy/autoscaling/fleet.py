"""Servers as a fluid: requests come, share the servers that are ready, and leave at the measured rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Fleet", "Server"]


@dataclass(frozen=True)
class Server:
    """``rates``: requests in flight -> output tokens a second, as measured (docs/performance.md, quick bench)."""

    rates: tuple[tuple[int, float], ...] = ((0, 0.0), (1, 121.0), (8, 464.0), (16, 586.0), (32, 666.0))
    max_running: int = 64
    load_seconds: int = 300
    tokens: float = 128.0  # output of a request
    length: float = 512.0  # prompt and output, in the KV cache
    kv_tokens: float = 65536.0

    def rate(self, in_flight: float) -> float:
        """Tokens a second, linear between what was measured, level beyond it."""
        for (low, slow), (high, fast) in pairwise(self.rates):
            if in_flight <= high:
                return slow + (fast - slow) * (in_flight - low) / (high - low)
        return self.rates[-1][1]


class Fleet:
    """``replicas``: ready or loading; ``arrivals``: requests a second until now. One `step` is a second."""

    def __init__(self, server: Server, replicas: int, arrivals: float) -> None:
        self._server = server
        self.ready = replicas
        self._loading: list[int] = []  # when each will be ready
        self.in_system = 0.0
        self._tokens = arrivals * server.tokens

    @property
    def replicas(self) -> int:
        return self.ready + len(self._loading)

    @property
    def running(self) -> float:
        return min(self.in_system, self.ready * self._server.max_running)

    @property
    def waiting(self) -> float:
        return self.in_system - self.running

    def scale(self, now: int, replicas: int) -> None:
        """Servers that go are those that load, the youngest first, then ready ones."""
        while self.replicas > replicas:
            if self._loading:
                self._loading.pop()
            else:
                self.ready -= 1
        self._loading += [now + self._server.load_seconds] * (replicas - self.replicas)

    def step(self, now: int, arrivals: float) -> None:
        """``arrivals``: requests in this second."""
        self.ready += sum(at <= now for at in self._loading)
        self._loading = [at for at in self._loading if at > now]
        self.in_system += arrivals
        able = self._server.rate(self.running / self.ready) * self.ready if self.ready else 0.0
        ended = min(self.in_system, able / self._server.tokens)
        self.in_system -= ended
        self._tokens += (ended * self._server.tokens - self._tokens) / 60  # as rate(…[1m]) sees it

    def totals(self) -> Mapping[str, float]:
        kv = self.running * self._server.length / self._server.kv_tokens
        return {"waiting": self.waiting, "tokens": self._tokens, "kv": kv}
