"""Taking turns: in each round every subject runs the same loads, one subject at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from triton_llm_client.bench.load import Load, Outcome, Subject
from triton_llm_client.bench.prompts import random_prompts

__all__ = ["Plan", "Results", "run_rounds", "speeds"]

Results = dict[tuple[str, int], list[Outcome]]  # (subject, in flight) -> one outcome a round


@dataclass(frozen=True)
class Plan:
    """What is run. ``seconds``: no round begins that would not end by then, but ``least_rounds`` always run."""

    in_flight: tuple[int, ...] = (1, 8, 16, 32)
    prompt_tokens: int = 128
    output_tokens: int = 64
    vocabulary: int = 32_000  # token ids to draw prompts from
    rounds: int = 6
    least_rounds: int = 2
    seconds: float = 240.0
    least_requests: int = 2  # of a load with fewer in flight: one request alone is too short to time well

    def load(self, round_number: int, in_flight: int) -> Load:
        """The load of one cell: fresh prompts in each round, so that no prefix cache helps anyone."""
        count = max(in_flight, self.least_requests)
        return Load(self._prompts(count, f"{round_number}/{in_flight}"), in_flight, self.output_tokens)

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


def run_rounds(subjects: Sequence[Subject], plan: Plan, report: Callable[[str], None]) -> Results:
    """Warm every subject up, then run the rounds; who begins changes from round to round."""
    for subject in subjects:
        subject.run(plan.warm_up())
    results: Results = {(subject.name, n): [] for subject in subjects for n in plan.in_flight}
    clock, done = _Clock(plan), 0
    while clock.has_time(done):
        for in_flight in plan.in_flight:
            for subject in _turn(subjects, done):
                outcome = subject.run(plan.load(done, in_flight))
                results[subject.name, in_flight].append(outcome)
                report(
                    f"round {done + 1}: {subject.name} {in_flight} in flight {outcome.tokens_per_second:.0f} tokens/s"
                )
        done += 1
    return results


def _turn(subjects: Sequence[Subject], round_number: int) -> list[Subject]:
    begin = round_number % len(subjects)
    return [*subjects[begin:], *subjects[:begin]]


def speeds(results: Mapping[tuple[str, int], Sequence[Outcome]], subject: str, in_flight: int) -> list[float]:
    """Output tokens per second of each round; empty where the subject did not run."""
    return [outcome.tokens_per_second for outcome in results.get((subject, in_flight), ())]
