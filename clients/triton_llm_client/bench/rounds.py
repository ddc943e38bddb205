"""Taking turns: in each round every subject runs the same loads, one subject at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from python_llm.errors import ServeError
from triton_llm_client.bench.load import Load, Outcome, Subject
from triton_llm_client.bench.prompts import random_prompts

__all__ = ["Plan", "Results", "run_rounds", "speeds"]

Results = dict[tuple[str, int], list[Outcome]]  # (subject, in flight) -> one outcome a round


@dataclass(frozen=True)
class Plan:
    """What is run. ``seconds``: no round begins that would not end by then, but ``least_rounds`` always run.

    ``levels``: subjects that run at fewer levels of ``in_flight``; ``most_rounds``: those that run in fewer rounds.
    ``apart``: subjects that share a prefix cache with another one, and so get prompts of their own, alike in length.
    ``peers``: subjects that leave when they fail; the failure of any other ends the bench.
    """

    in_flight: tuple[int, ...] = (1, 8, 16, 32)
    prompt_tokens: int = 128
    output_tokens: int = 64
    vocabulary: int | tuple[int, ...] = 32_000  # token ids to draw prompts from, or how many
    rounds: int = 6
    least_rounds: int = 2
    seconds: float = 240.0
    least_requests: int = 2  # of a load with fewer in flight: one request alone is too short to time well
    levels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    most_rounds: Mapping[str, int] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    peers: frozenset[str] = frozenset()

    def runs(self, subject: str, in_flight: int, round_number: int = 0) -> bool:
        """Whether the subject takes part there."""
        wanted = in_flight in self.levels.get(subject, self.in_flight)
        return wanted and round_number < self.most_rounds.get(subject, self.rounds)

    def load(self, round_number: int, in_flight: int, subject: str = "") -> Load:
        """The load of one cell: fresh prompts in each round, so that no prefix cache helps anyone."""
        count = max(in_flight, self.least_requests)
        seed = f"{round_number}/{in_flight}" + (f"/{subject}" if subject in self.apart else "")
        return Load(self._prompts(count, seed), in_flight, self.output_tokens)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; of the words to draw from their number."""
        words = self.vocabulary if isinstance(self.vocabulary, int) else len(self.vocabulary)
        return {**asdict(self), "vocabulary": words, "apart": sorted(self.apart), "peers": sorted(self.peers)}

    def warm_up(self) -> Load:
        return Load(self._prompts(4, "warm-up"), in_flight=4, output_tokens=min(8, self.output_tokens))

    def _prompts(self, count: int, seed: str) -> tuple[tuple[int, ...], ...]:
        return random_prompts(count, self.prompt_tokens, seed=seed, vocabulary=self.vocabulary)


@dataclass
class _Clock:
    plan: Plan
    started: float = field(default_factory=time.monotonic)

    def has_time(self, done: int) -> bool:
        if done < self.plan.least_rounds:
            return True
        spent = time.monotonic() - self.started
        return done < self.plan.rounds and spent * (done + 1) / done <= self.plan.seconds


def run_rounds(
    subjects: Sequence[Subject], plan: Plan, report: Callable[[str], None], gone: dict[str, str] | None = None
) -> Results:
    """Warm every subject up, then run the rounds; who begins changes from round to round.

    ``gone``: takes the names of peers that failed and left, each with when and why; what they did before counts.

    Raises:
        ServeError: a subject failed that is no peer.
    """
    gone = {} if gone is None else gone
    results: Results = {(s.name, n): [] for s in subjects for n in plan.in_flight if plan.runs(s.name, n)}

    def run(subject: Subject, load: Load, when: str) -> Outcome | None:
        if subject.name in gone:
            return None
        try:
            return subject.run(load)
        except ServeError as error:
            if subject.name not in plan.peers:
                raise
            gone[subject.name] = f"left in {when}: {error}"
            report(f"{subject.name} {gone[subject.name]}")
            return None

    for subject in subjects:
        run(subject, plan.warm_up(), "warm-up")
    clock, done = _Clock(plan), 0
    while clock.has_time(done):
        for in_flight in plan.in_flight:
            for subject in _turn(subjects, done):
                if plan.runs(subject.name, in_flight, done):
                    when = f"round {done + 1}, {in_flight} in flight"
                    if outcome := run(subject, plan.load(done, in_flight, subject.name), when):
                        results[subject.name, in_flight].append(outcome)
                        report(f"{when}: {subject.name} {outcome.tokens_per_second:.0f} tokens/s")
        done += 1
    return {cell: outcomes for cell, outcomes in results.items() if outcomes}


def _turn(subjects: Sequence[Subject], round_number: int) -> list[Subject]:
    begin = round_number % len(subjects)
    return [*subjects[begin:], *subjects[:begin]]


def speeds(results: Mapping[tuple[str, int], Sequence[Outcome]], subject: str, in_flight: int) -> list[float]:
    """Output tokens per second of each round; empty where the subject did not run."""
    return [outcome.tokens_per_second for outcome in results.get((subject, in_flight), ())]
