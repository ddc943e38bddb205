"""One request as the generator sees it: from admission to its single final response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from python_llm.admission import Admitted
from python_llm.engine import Failed, Finished, FinishReason
from python_llm.errors import ServeError
from python_llm.stream import Delta, TextStream
from python_llm.token_bytes import TokenBytes

__all__ = ["Reply", "Session"]


class Reply(Protocol):
    """Where a request's responses go."""

    def send(self, outputs: Mapping[str, Any], *, final: bool) -> None: ...

    def fail(self, error: ServeError) -> None:
        """End the request with an error."""

    def is_cancelled(self) -> bool:
        """Whether the caller has left; may cost a message to Triton's process."""


class Session:
    """Turns engine events into responses; used by the delivery thread alone.

    ``verdict`` is set by other threads before they cancel the request at the engine, and says how it really ended.
    ``caller_id`` may be used again once the last response is on its way; the engine knows the request by another.
    """

    def __init__(self, caller_id: str, admitted: Admitted, reply: Reply, token_bytes: TokenBytes) -> None:
        self.caller_id = caller_id
        self.request = admitted.request
        self.deadline = 0.0  # time.monotonic() seconds; 0: none
        self.next_cancel_check = 0.0
        self.reply = reply
        self.verdict: FinishReason | None = None
        self.begun = False  # its first tokens were handled
        self.ending = False  # a final response or an error is being sent
        self.ended = False  # and was sent
        self._streams = admitted.stream
        self._every_output = admitted.every_output
        self._text = TextStream(token_bytes, admitted.stop_words, self.request.min_tokens)
        self._text.resume(self.request.resume_ids)
        self._kept: list[Delta] = []  # deltas of a request that does not stream

    @property
    def stopped_by_text(self) -> bool:
        return self._text.stop_word is not None

    def on_events(self, ids: Sequence[int], end: Finished | Failed | None) -> None:
        """New tokens, and perhaps the end, in one response."""
        if self.ended:
            return  # tokens after a stop word: the engine had not yet seen the cancel
        self.begun = self.begun or bool(ids)
        delta = self._text.push(ids)
        if self.stopped_by_text:
            self._finish(delta, "stop")
        elif isinstance(end, Failed):
            self.fail(end.error)
        elif isinstance(end, Finished):
            reason = self.verdict if self.verdict and end.reason == "cancelled" else end.reason
            self._finish(Delta.join([delta, self._text.finish()]), reason)
        elif delta:
            self._emit(delta)

    def fail(self, error: ServeError) -> None:
        if not self.ended:
            self.ending = True
            self.reply.fail(error)
            self.ended = True

    def _emit(self, delta: Delta) -> None:
        if self._streams:
            self.reply.send(self._outputs(delta, ""), final=False)
        else:
            self._kept.append(delta)

    def _finish(self, last: Delta, reason: str) -> None:
        whole = Delta.join([*self._kept, last])
        self.ending = True
        self.reply.send(self._outputs(whole, reason), final=True)
        self.ended = True

    def _outputs(self, delta: Delta, reason: str) -> dict[str, Any]:
        """Each tensor costs time in three processes, so a delta has two; the last response says the rest."""
        outputs: dict[str, Any] = {"output_ids": delta.ids}
        if self._every_output:
            outputs["chunk_ids"] = (*delta.context, *delta.ids)
            outputs["text_span"] = (delta.skip, len(delta.text.encode()))
        else:
            outputs["text_output"] = delta.text
        if reason or self._every_output:
            outputs["sequence_index"] = 0
            outputs["finish_reason"] = reason
            outputs["num_input_tokens"] = len(self.request.prompt_ids)
            outputs["num_output_tokens"] = self._text.token_count
            outputs["seed_used"] = self.request.sampling.seed
        return outputs
