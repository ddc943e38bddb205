"""From the library's cumulative outputs to events: what is new, and the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from python_llm.engine import (
    Finished,
    FinishReason,
    GenerateRequest,
    PromptLogProbs,
    Sink,
    Tokens,
    TopLogProbs,
    Usage,
)
from python_llm.errors import EngineFailure

__all__ = ["Progress"]

_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "timeout": "timeout",
    "cancelled": "cancelled",
}


class Progress:
    """Of one sequence; used on the engine's thread alone."""

    def __init__(self, request: GenerateRequest, index: int, sink: Sink) -> None:
        self.index = index
        self.ended = False
        self._request = request
        self._sink = sink
        self._sent = 0
        self._first_ns = self._last_ns = 0

    def take(self, output: Any) -> None:
        """Tell what ``output`` has beyond what was told; nothing after the end."""
        if self.ended:
            return
        ids = [int(token_id) for token_id in output.token_ids]
        reason = output.finish_reason
        stop_id = self._cut_the_end(ids, output.stop_reason) if reason == "stop" else None
        if self._request.max_tokens == 0:
            ids, reason = [], reason and "length"
        self._tell(ids, output.logprobs)
        if reason is not None:
            self.end(_REASONS[reason], stop_id)

    def tell_prompt(self, output: Any) -> None:
        """The prompt's log-probs, of each token but the first."""
        if not self._request.prompt_log_probs:
            return
        rows = list(output.prompt_logprobs or ())
        ids = self._request.prompt_ids[1:]
        if len(rows) < len(ids):
            raise EngineFailure(
                "log_probs_missing", f"TensorRT-LLM: {len(rows)} log-probs of {len(ids)} prompt tokens; leave them out."
            )
        values = tuple(_log_prob(row, token_id) for row, token_id in zip(rows, ids, strict=False))
        tops = tuple(_alternatives(row, self._request.top_log_probs) for row in rows[: len(ids)])
        self._sink(PromptLogProbs(values, tops))

    def end(self, reason: FinishReason, stop_id: int | None = None) -> None:
        """The sequence's one Finished."""
        if not self.ended:
            self.ended = True
            self._sink(Finished(self.index, reason, self._usage(), stop_id))

    def _cut_the_end(self, ids: list[int], stop_reason: Any) -> int | None:
        """Versions differ in whether they show the token that ended the sequence: it is never part of the output."""
        ends = self._request.end_ids | self._request.stop_ids
        if len(ids) > self._sent and ids[-1] in ends:
            return ids.pop()
        if isinstance(stop_reason, int):
            return stop_reason
        return min(self._request.end_ids, default=None)

    def _tell(self, ids: list[int], rows: Any) -> None:
        new = tuple(ids[self._sent :])
        if not new:
            return
        self._last_ns = time.monotonic_ns()
        self._first_ns = self._first_ns or self._last_ns
        self._sink(Tokens(self.index, new, *self._log_probs(new, rows)))
        self._sent += len(new)

    def _log_probs(self, new: tuple[int, ...], rows: Any) -> tuple[tuple[float, ...], tuple[TopLogProbs, ...]]:
        if not self._request.log_probs:
            return (), ()
        fresh = list(rows or ())[self._sent : self._sent + len(new)]
        if len(fresh) != len(new):
            raise EngineFailure(
                "log_probs_missing", f"TensorRT-LLM: {len(fresh)} log-probs with {len(new)} tokens; leave them out."
            )
        tops = tuple(_alternatives(row, self._request.top_log_probs) for row in fresh)
        return tuple(_log_prob(row, token_id) for row, token_id in zip(fresh, new, strict=True)), tops

    def _usage(self) -> Usage:
        request = self._request
        made = len(request.resume_ids) + self._sent
        return Usage(len(request.prompt_ids), made, first_token_ns=self._first_ns, last_token_ns=self._last_ns)


def _log_prob(row: Mapping[int, Any], token_id: int) -> float:
    if token_id not in row:
        raise EngineFailure("log_probs_missing", f"TensorRT-LLM: no log-prob of token {token_id}; leave them out.")
    return float(row[token_id].logprob)


def _alternatives(row: Mapping[int, Any], count: int) -> TopLogProbs:
    """Likeliest first, equal ones by id; the row holds the sampled token beside them."""
    pairs: Iterable[tuple[int, float]] = ((int(token_id), float(each.logprob)) for token_id, each in row.items())
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count])
