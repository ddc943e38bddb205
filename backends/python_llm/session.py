"""One request as the generator sees it: from admission to its single final response."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from python_llm.admission import Admitted
from python_llm.engine import Event, Failed, Finished, FinishReason, PromptLogProbs, Tokens
from python_llm.errors import ServeError
from python_llm.output_sequence import OutputSequence
from python_llm.outputs import OutputWriter
from python_llm.recorder import Outcome, Recorder, Unrecorded
from python_llm.response_facts import Part, RequestFacts
from python_llm.token_bytes import TokenBytes

__all__ = ["Reply", "Session"]


class Reply(Protocol):
    """Where a request's responses go: outputs by name, one value or a list."""

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

    def __init__(
        self, caller_id: str, admitted: Admitted, reply: Reply, token_bytes: TokenBytes, arrival: float = 0.0
    ) -> None:
        """``arrival``: when the request came, as time.monotonic()."""
        self.caller_id = caller_id
        self.request = admitted.request
        self.deadline = 0.0  # time.monotonic() seconds; 0: none
        self.next_cancel_check = 0.0
        self.reply = reply
        self.recorder: Recorder = Unrecorded()
        self.verdict: FinishReason | None = None
        self.begun = False  # its first tokens were handled
        self.ending = False  # a final response or an error is being sent
        self.ended = False  # and was sent
        self.failed_at_engine = False
        self._error: ServeError | None = None
        self._arrival = arrival
        self._end = 0.0  # when its last response was sent, as time.monotonic()
        self._ends: dict[int, Part] = {}  # the last parts of the sequences that ended
        self._streams = admitted.stream
        self._first = True
        first, count = self.request.first_index, self.request.sequence_count
        self._sequences = {i: OutputSequence(i, admitted, token_bytes) for i in range(first, first + count)}
        self._facts = RequestFacts(self.request, int(arrival * 1e9), token_bytes)
        self._writer = OutputWriter(admitted.outputs, several=count > 1, in_ensemble=admitted.every_output)
        self._parts: list[Part] = []  # of a request that does not stream: its sequences that ended

    @property
    def cut_short(self) -> Sequence[int]:
        """The sequences whose text ended while the engine goes on with them."""
        return [] if self.failed_at_engine else [s.index for s in self._sequences.values() if s.cut_short]

    @property
    def ended_at_engine(self) -> bool:
        return self.failed_at_engine or all(s.end_at_engine is not None for s in self._sequences.values())

    def outcome(self) -> Outcome:
        """How it ended, once it has at both ends."""
        scheduled, resumed = self._facts.first_scheduled_ns, len(self.request.resume_ids)
        return Outcome(
            reason=self._ends[min(self._ends)].reason if self._ends else "error",
            error=self._error,
            whole=(self._end or time.monotonic()) - self._arrival,
            queued=scheduled / 1e9 - self._arrival if scheduled else None,
            prompt_tokens=self._facts.input_tokens,
            output_tokens=tuple(part.output_tokens - resumed for part in self._ends.values()),
        )

    def end_trace(self) -> None:
        """Tell the request's trace how it ended, once it has at both ends."""
        if self.request.trace is not None:
            reason = self._ends[min(self._ends)].reason if self._ends else "error"
            self.request.trace.ended(reason, self._error, self._facts.usages)

    def on_events(self, events: Sequence[Event]) -> None:
        """What the engine said since the last call; sends what may be sent."""
        failure = next((event for event in events if isinstance(event, Failed)), None)
        self.failed_at_engine = self.failed_at_engine or failure is not None
        parts = self._take(events)
        if self.ended:
            return
        done = all(sequence.ended for sequence in self._sequences.values())
        if failure is not None and not done:
            self.fail(failure.error)
        elif self._streams:
            self._stream(parts, done)
        else:
            self._parts += parts
            if done:
                self._send(sorted(self._parts, key=lambda part: part.index), final=True)

    def fail(self, error: ServeError) -> None:
        if not self.ended:
            self._error = error
            self.ending = True
            self.reply.fail(error)
            self._over()

    def _take(self, events: Sequence[Event]) -> list[Part]:
        by_index: dict[int, list[Tokens]] = {}
        for event in events:
            if isinstance(event, Finished):
                self._sequences[event.index].end_at_engine = event
                self._facts.usages.append(event.usage)
                by_index.setdefault(event.index, [])
            elif isinstance(event, Tokens):
                by_index.setdefault(event.index, []).append(event)
                self.begun = True
            elif isinstance(event, PromptLogProbs):
                self._facts.prompt = event
        parts = (self._sequences[index].take(said, self.verdict) for index, said in by_index.items())
        told = [part for part in parts if part is not None]
        self._ends.update((part.index, part) for part in told if part.ended)
        return told

    def _stream(self, parts: Sequence[Part], done: bool) -> None:
        for part in parts:
            self._send([part], final=done and part is parts[-1])

    def _send(self, parts: Sequence[Part], *, final: bool) -> None:
        outputs = self._writer.write(self._facts, parts, first=self._first, last=final)
        self._first = False
        self.ending = self.ending or final
        self.reply.send(outputs, final=final)
        if self.request.trace is not None:
            self.request.trace.sent()
        if final:
            self._over()

    def _over(self) -> None:
        self.ended = True
        self._end = time.monotonic()
