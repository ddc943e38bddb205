"""What is counted of one request."""

from __future__ import annotations

import time

from openai_gateway.metrics import GatewayMetrics
from python_llm.errors import ServeError
from triton_llm_client import Chunk

__all__ = ["Tally"]


class Tally:
    """Begin it with the request; `ended` once."""

    def __init__(self, metrics: GatewayMetrics, model: str, tenant: str) -> None:
        self._metrics, self._model, self._tenant = metrics, model, tenant
        self._begun = time.perf_counter()
        self._streamed = False
        self._prompt_tokens = 0
        self._tokens: dict[int, int] = {}  # by sequence
        self.finish_reason = "none"

    def saw(self, chunk: Chunk) -> None:
        if not self._streamed and (chunk.text or chunk.output_ids):
            self._streamed = True
            self._metrics.first_text(self._model, time.perf_counter() - self._begun)
        counted = self._tokens.get(chunk.sequence_index, 0) + len(chunk.output_ids)
        self._tokens[chunk.sequence_index] = counted if chunk.output_tokens is None else chunk.output_tokens
        if chunk.input_tokens is not None:
            self._prompt_tokens = chunk.input_tokens
        if chunk.finish_reason is not None:
            self.finish_reason = chunk.finish_reason

    def broke(self, error: ServeError) -> None:
        if self._streamed:
            self._metrics.lost(error.reason)

    def ended(self, outcome: str) -> None:
        self._metrics.ended(self._model, outcome, time.perf_counter() - self._begun)
        self._metrics.used(self._tenant, self._prompt_tokens, sum(self._tokens.values()))
