"""One sequence of a request as the generator sees it: text, stops and log-probs up to its single end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from python_llm.admission import Admitted
from python_llm.engine import Finished, FinishReason, Tokens, TopLogProbs
from python_llm.response_facts import Part
from python_llm.stream import Delta, TextStream
from python_llm.token_bytes import TokenBytes

__all__ = ["OutputSequence"]

T = TypeVar("T")


class OutputSequence:
    """Turns the engine's events of one sequence into parts of responses; ids and log-probs wait with their text."""

    def __init__(self, index: int, admitted: Admitted, token_bytes: TokenBytes) -> None:
        request = admitted.request
        self.index = index
        self.end_at_engine: Finished | None = None
        self.ended = False  # its last part was made
        self._streams = admitted.stream
        self._awaits_usage = admitted.wants_usage
        self._token_bytes = token_bytes
        self._text = TextStream(
            token_bytes, admitted.stop_words, request.min_tokens, keep_stop_word=admitted.keep_stop_word
        )
        if request.resume_ids:
            self._text.resume(request.resume_ids)
        elif admitted.echo:
            self._text.echo(request.prompt_ids)
        self._log_probs: deque[float] = deque()  # of tokens whose ids wait
        self._top_log_probs: deque[TopLogProbs] = deque()
        self._log_prob_sum = 0.0
        self._kept: list[Part] = []  # parts of a sequence that does not stream

    @property
    def cut_short(self) -> bool:
        """Its text ended and the engine goes on."""
        return self._text.stop_word is not None and self.end_at_engine is None

    def take(self, tokens: Sequence[Tokens], verdict: FinishReason | None) -> Part | None:
        """New tokens of this sequence, and its end if ``end_at_engine`` is set by now; the part to send, if any.

        ``verdict``: why the request was cancelled.
        """
        if self.ended:
            return None  # tokens after a stop word: the engine had not yet seen the cancel
        delta = self._push(tokens)
        if self._text.stop_word is not None:
            if not (self._awaits_usage and self.end_at_engine is None):
                return self._end(delta, "stop", self._text.stop_word)
        elif self.end_at_engine is not None:
            end = self.end_at_engine
            reason = verdict if verdict and end.reason == "cancelled" else end.reason
            stop_reason = "" if end.stop_id is None or reason != "stop" else str(end.stop_id)
            return self._end(Delta.join([delta, self._text.finish()]), reason, stop_reason)
        return self._go_on(delta)

    def _push(self, tokens: Sequence[Tokens]) -> Delta:
        for event in tokens:
            self._log_probs.extend(event.log_probs)
            self._top_log_probs.extend(event.top_log_probs)
        return self._text.push([token_id for event in tokens for token_id in event.ids])

    def _go_on(self, delta: Delta) -> Part | None:
        if not delta:
            return None
        part = self._part(delta)
        if self._streams and self._text.stop_word is None:
            return part
        self._kept.append(part)
        return None

    def _end(self, delta: Delta, reason: str, stop_reason: str) -> Part:
        self.ended = True
        return Part.join([*self._kept, self._part(delta, reason, stop_reason)])

    def _part(self, delta: Delta, reason: str = "", stop_reason: str = "") -> Part:
        log_probs = _first(self._log_probs, len(delta.ids))
        self._log_prob_sum += sum(log_probs)
        return Part(
            self.index,
            delta,
            log_probs,
            _first(self._top_log_probs, len(delta.ids)),
            self._log_prob_sum,
            self._text.token_count,
            self._token_bytes,
            reason,
            stop_reason,
        )


def _first(waiting: deque[T], count: int) -> tuple[T, ...]:
    """Take ``count`` entries, or none where none were asked for."""
    return tuple(waiting.popleft() for _ in range(count)) if waiting else ()
