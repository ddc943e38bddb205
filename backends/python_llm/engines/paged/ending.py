"""How generations end: out of the scheduler first, so that their blocks are free, then told to their callers."""

from __future__ import annotations

from collections.abc import Callable

from python_llm.engine import Failed, Finished, FinishReason, Tokens
from python_llm.engines.paged.beams import BeamSearch, Hypothesis
from python_llm.engines.paged.scheduler import Scheduler
from python_llm.engines.paged.sequence import Sequence
from python_llm.errors import ServeError

__all__ = ["Ending"]


class Ending:
    """Calls ``request_over`` once for each request, when the last of its sequences has ended."""

    def __init__(self, scheduler: Scheduler, request_over: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._request_over = request_over

    def finish(self, sequence: Sequence, reason: FinishReason, stop_id: int | None = None) -> None:
        """End a sequence, and what it stands for; nothing happens if it has ended already."""
        if sequence.over:
            return
        if sequence.search is not None:
            self.finish_beams(sequence.search, reason)
            return
        self._take_out([sequence])
        usage = sequence.usage()
        for index in range(sequence.index, sequence.index + sequence.places):
            sequence.sink(Finished(index, reason, usage, stop_id))
        if not self._siblings(sequence):
            self._request_over()

    def finish_beams(self, search: BeamSearch, reason: FinishReason | None = None) -> None:
        """End a beam search with its best; ``reason`` says why it was cut short."""
        lead = search.beams[0]
        self._take_out(search.beams)
        for index, best in enumerate(search.results(), start=lead.request.first_index):
            self._tell(lead, index, best, reason)
        self._request_over()

    def fail(self, sequence: Sequence, error: ServeError) -> None:
        """End the whole request that the sequence belongs to with one error."""
        if sequence.over:
            return
        self._take_out([sequence, *self._siblings(sequence)])
        sequence.sink(Failed(error))
        self._request_over()

    def _tell(self, lead: Sequence, index: int, best: Hypothesis, reason: FinishReason | None) -> None:
        ids = tuple(best.sequence.tokens[len(lead.request.prompt_ids) :])
        told = lead.request.log_probs
        log_probs = tuple(choice.log_prob or 0.0 for choice in best.choices) if told else ()
        lead.sink(Tokens(index, ids, log_probs, tuple(choice.top for choice in best.choices) if told else ()))
        cut_short = reason if best.reason == "cancelled" else None
        lead.sink(Finished(index, cut_short or best.reason, best.sequence.usage(), best.stop_id))

    def _take_out(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            sequence.over = True
            self._scheduler.remove(sequence)

    def _siblings(self, sequence: Sequence) -> list[Sequence]:
        request = sequence.request
        everybody = self._scheduler.everybody()
        return [other for other in everybody if other.request is request and other is not sequence]
