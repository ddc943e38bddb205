"""Beam search over sequences that share blocks: which beams go on, and which are the best that ended.

The rules are those of transformers' ``generate(num_beams=…)`` (4.57): scores are sums of adjusted log-probs; of the
best candidates of all beams those that end are kept with score / length ** length_penalty, the best others go on.
The beams of a request may be computed in different steps: each parks its candidates until all have theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from python_llm.engine import BeamParams, FinishReason
from python_llm.engines.paged.log_probs import largest, log_softmax
from python_llm.engines.paged.sampler import Choice, Draw, adjusted
from python_llm.engines.paged.sequence import Sequence

__all__ = ["BeamSearch", "Continuation", "Hypothesis"]


class Continuation(NamedTuple):
    """One more token of a beam; ``score`` is the sum up to and with it."""

    score: float
    parent: Sequence
    choice: Choice


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A beam that ended, or, when the request is cut short, one that would have gone on."""

    score: float
    sequence: Sequence  # without the ending token
    choices: tuple[Choice, ...]
    reason: FinishReason
    stop_id: int | None = None


class BeamSearch:
    """The state of one request's search; used by the engine's thread alone."""

    def __init__(self, lead: Sequence, params: BeamParams) -> None:
        self._params = params
        self._request = lead.request
        self._end_ids = lead.request.end_ids | lead.request.stop_ids
        self._parked: dict[Sequence, list[Continuation]] = {}
        self._finished: list[Hypothesis] = []  # best first
        self.beams = [lead]

    @property
    def ready(self) -> bool:
        return all(beam in self._parked for beam in self.beams)

    def park(self, sequence: Sequence, row: npt.NDArray[np.float32], draw: Draw) -> bool:
        """Keep the best candidates of a beam's logits; False when nothing may follow it."""
        raw = log_softmax(row)
        scores = adjusted(raw, draw)
        keep = min(max(2, 1 + len(self._end_ids)) * self._params.width, len(scores))
        best = np.argpartition(-scores, keep - 1)[:keep]
        best = best[np.lexsort((best, -scores[best]))]
        told = self._request.log_probs
        count = self._request.top_log_probs if told else 0
        top = tuple((int(i), float(raw[i])) for i in largest(raw, count)) if count else ()
        self._parked[sequence] = [
            Continuation(
                sequence.score + float(scores[i]), sequence, Choice(int(i), float(raw[i]) if told else None, top)
            )
            for i in best
            if np.isfinite(scores[i])
        ]
        return bool(self._parked[sequence])

    def choose(self) -> list[Continuation]:
        """The beams of the next step, best first; none when the search is over."""
        params = self._params
        keep = max(2, 1 + len(self._end_ids)) * params.width
        candidates = [each for beam in self.beams for each in self._parked[beam]]
        candidates = sorted(candidates, key=lambda each: -each.score)[:keep]  # stable: earlier beams win ties
        self._parked = {}
        self._keep_ended([each for each in candidates[: params.width] if self._ends(each)])
        going_on = [each for each in candidates if not self._ends(each)][: params.width]
        return going_on if going_on and self._may_improve(going_on[0]) else []

    def results(self) -> list[Hypothesis]:
        """The best sequences, as many as were asked for; running beams stand in for what has not ended."""
        running = [Hypothesis(b.score, b, b.history, "cancelled") for b in self.beams]
        return [*self._finished, *running][: self._request.sequence_count]

    def _ends(self, each: Continuation) -> bool:
        return each.choice.id in self._end_ids or each.parent.output_count + 1 >= self._request.max_tokens

    def _keep_ended(self, ended: list[Continuation]) -> None:
        if self._params.early_stopping and len(self._finished) == self._params.width:
            return
        self._finished = sorted([*self._finished, *map(self._hypothesis, ended)], key=lambda each: -each.score)
        del self._finished[self._params.width :]

    def _hypothesis(self, each: Continuation) -> Hypothesis:
        sequence, token_id = each.parent.fork(each.parent.index), each.choice.id
        score = self._normalised(each.score, sequence.output_count + 1)
        if token_id in self._end_ids:
            return Hypothesis(score, sequence, sequence.history, "stop", token_id)
        sequence.tokens.append(token_id)
        return Hypothesis(score, sequence, (*sequence.history, each.choice), "length")

    def _may_improve(self, best: Continuation) -> bool:
        if len(self._finished) < self._params.width:
            return True
        if self._params.early_stopping:
            return False
        return self._normalised(best.score, best.parent.output_count + 1) > self._finished[-1].score

    def _normalised(self, score: float, length: int) -> float:
        return float(score / length**self._params.length_penalty)
