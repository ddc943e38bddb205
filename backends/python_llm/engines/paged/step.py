"""What one step does: copy shared blocks, run the model, and turn its logits into tokens and ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from python_llm.engine import PromptLogProbs, Tokens
from python_llm.engines.paged import refusals
from python_llm.engines.paged.beams import BeamSearch
from python_llm.engines.paged.ending import Ending
from python_llm.engines.paged.log_probs import prompt_log_probs
from python_llm.engines.paged.prefix_cache import PrefixCache
from python_llm.engines.paged.runner import ModelRunner, build_batch
from python_llm.engines.paged.sampler import BROKEN_LOGITS, NOTHING_ALLOWED, Choice, Draw, sample
from python_llm.engines.paged.scheduler import Scheduler
from python_llm.engines.paged.sequence import Sequence
from python_llm.engines.paged.slice import Slice

__all__ = ["Step"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Step:
    """Runs the scheduler's plans; used by the engine's thread alone."""

    runner: ModelRunner
    scheduler: Scheduler
    cache: PrefixCache
    ending: Ending

    def run(self, plan: list[Slice]) -> None:
        for source, target in self.scheduler.take_copies():
            self.runner.import_blocks([target], self.runner.export_blocks([source]))
        rows_of = [part.rows for part in plan]
        scheduled = time.monotonic_ns()
        logits = self.runner.forward(build_batch(plan))
        now = time.monotonic_ns()
        self._learn(plan, (now - scheduled) / 1e9)
        begin = 0
        samplers: list[tuple[Sequence, int]] = []  # (sequence, its row of logits)
        for part, rows in zip(plan, rows_of, strict=True):
            part.sequence.first_scheduled_ns = part.sequence.first_scheduled_ns or scheduled
            if part.is_prefill and part.sequence.request.trace is not None:
                part.sequence.request.trace.prefill(scheduled, now, part.count)
            self._advance(part, logits[begin : begin + rows])
            begin += rows
            if part.drafts:
                self._verify(part, logits[begin - rows : begin], now)
            elif part.samples and self._goes_on(part.sequence):
                samplers += [(sequence, begin - 1) for sequence in self._parted(part.sequence)]
        self._sample(logits, samplers, now)

    def _learn(self, plan: list[Slice], seconds: float) -> None:
        tokens = sum(part.count for part in plan)
        decoding = sum(part.sequence.first_token_ns > 0 for part in plan)
        self.scheduler.goal.learn(decoding, tokens, seconds)
        self.cache.store.computed(sum(part.count for part in plan if part.count > 1), tokens, seconds)
        self.scheduler.speculation.learn_step(tokens, seconds)

    def _advance(self, part: Slice, rows: Floats) -> None:
        sequence, before = part.sequence, part.sequence.computed
        if sequence.scores_prompt:
            _score_prompt(sequence, rows)
        sequence.computed += part.count - len(part.drafts)
        self.cache.remember(sequence, before)

    def _verify(self, part: Slice, rows: Floats, now: int) -> None:
        """Draw a token from each row in turn, as long as the guess before it was right."""
        sequence, accepted = part.sequence, 0
        for row, guess in zip(rows, (*part.drafts, None), strict=True):
            (choice,) = sample(row[None], [draw_of(sequence)])
            self._accept(sequence, choice, now)
            if sequence.over or choice.id != guess:
                break
            accepted += 1
        self.scheduler.speculation.learn(sequence, len(part.drafts), accepted)
        if not sequence.over:
            sequence.computed += accepted  # right guesses have their keys and values already
            self.cache.remember(sequence, sequence.computed - accepted)

    def _goes_on(self, sequence: Sequence) -> bool:
        """Tell what the computed prompt gave, once; False when it was all that was asked for."""
        if sequence.output_count > len(sequence.request.resume_ids):
            return True
        if not sequence.preempted:
            self.cache.count(sequence)
        if sequence.request.prompt_log_probs:
            sequence.sink(PromptLogProbs(tuple(sequence.prompt_scores), tuple(sequence.prompt_tops)))
        if sequence.is_full:
            self.ending.finish(sequence, "length")
        return not sequence.over

    def _parted(self, sequence: Sequence) -> list[Sequence]:
        """The sequence and those that stood behind it until now."""
        if sequence.request.beam is not None:
            if sequence.search is None:
                sequence.search = BeamSearch(sequence, sequence.request.beam)
            return [sequence]
        children = [sequence.fork(sequence.index + more) for more in range(1, sequence.places)]
        sequence.places = 1
        for child in children:
            self.scheduler.fork(sequence, child)
        return [sequence, *children]

    def _sample(self, logits: Floats, samplers: list[tuple[Sequence, int]], now: int) -> None:
        searching = [(sequence, row) for sequence, row in samplers if sequence.search is not None]
        plain = [(sequence, row) for sequence, row in samplers if sequence.search is None]
        if plain:
            rows = [row for _, row in plain]
            wanted = logits if rows == list(range(len(logits))) else logits[rows]
            choices = sample(wanted, [draw_of(sequence) for sequence, _ in plain])
            for (sequence, _), choice in zip(plain, choices, strict=True):
                self._accept(sequence, choice, now)
        for sequence, row in searching:
            self._park(sequence, logits[row])
        for search in {id(s.search): s.search for s, _ in searching if s.search and not s.over}.values():
            if search.ready:
                self._continue(search, now)

    def _accept(self, sequence: Sequence, choice: Choice, now: int) -> None:
        request, token_id = sequence.request, choice.id
        sequence.first_token_ns = sequence.first_token_ns or now
        if now - sequence.last_token_ns > sequence.slowest_gap_ns and sequence.last_token_ns:
            sequence.slowest_gap_ns = now - sequence.last_token_ns
        sequence.last_token_ns = now
        if token_id in _REFUSALS:
            self.ending.fail(sequence, _REFUSALS[token_id](sequence))
        elif token_id in request.end_ids or token_id in request.stop_ids:
            self.ending.finish(sequence, "stop", token_id)
        else:
            sequence.tokens.append(token_id)
            told = () if choice.log_prob is None else (choice.log_prob,)
            sequence.sink(Tokens(sequence.index, (token_id,), told, (choice.top,) if told else ()))
            if sequence.matcher is not None:
                sequence.matcher.accept(token_id)  # it fits: the mask let it through
            if sequence.matcher is not None and sequence.matcher.finished:
                self.ending.finish(sequence, "stop")
            elif sequence.is_full:
                self.ending.finish(sequence, "length")

    def _park(self, sequence: Sequence, row: Floats) -> None:
        if sequence.over or sequence.search is None:
            return  # a sibling failed in this step
        if not np.isfinite(row).any() or np.isnan(row).any():
            self.ending.fail(sequence, refusals.not_finite(sequence))
        elif not sequence.search.park(sequence, row, draw_of(sequence)) and len(sequence.search.beams) == 1:
            self.ending.fail(sequence, refusals.nothing_allowed(sequence))

    def _continue(self, search: BeamSearch, now: int) -> None:
        """Let the chosen beams take the place of those they come from."""
        beams = []
        for number, (score, parent, choice) in enumerate(search.choose()):
            child = parent.fork(number)
            child.tokens.append(choice.id)
            child.score, child.history = score, (*parent.history, choice)
            child.first_token_ns, child.last_token_ns = child.first_token_ns or now, now
            self.scheduler.fork(parent, child)
            beams.append(child)
        if not beams:
            self.ending.finish_beams(search)
            return
        for old in search.beams:
            self.scheduler.remove(old)
            old.over = True
        search.beams = beams


def draw_of(sequence: Sequence) -> Draw:
    """What the sequence's next token depends on beside its logits."""
    request = sequence.request
    must_go_on = sequence.output_count < request.min_tokens
    return Draw(
        params=request.sampling,
        index=sequence.index,
        position=len(sequence.tokens),
        tokens=sequence.tokens,
        prompt_count=len(request.prompt_ids),
        forbidden=request.end_ids | request.stop_ids if must_go_on else frozenset(),
        mask=sequence.matcher.mask() if sequence.matcher else None,
        log_probs=request.log_probs,
        top_log_probs=request.top_log_probs,
    )


def _score_prompt(sequence: Sequence, rows: Floats) -> None:
    """Keep the log-probs of the prompt tokens that follow the slice's; rows computed again are passed over."""
    prompt = sequence.request.prompt_ids
    first = len(sequence.prompt_scores)  # the position whose logits are wanted next
    skip = first - sequence.computed
    following = prompt[first + 1 : sequence.computed + len(rows) + 1]
    if following and skip >= 0:
        wanted = rows[skip : skip + len(following)]
        scores, tops = prompt_log_probs(wanted, following, sequence.request.top_log_probs)
        sequence.prompt_scores.extend(scores)
        sequence.prompt_tops.extend(tops)


# What a choice's id says when it is no id.
_REFUSALS = {NOTHING_ALLOWED: refusals.nothing_allowed, BROKEN_LOGITS: refusals.not_finite}
