"""``triton-llm bench --profile``: the engine alone and the served one in turns, under the same loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from python_llm.errors import CallerMistake
from triton_llm_client.bench.load import Load, Outcome
from triton_llm_client.bench.profile.breakdown import Breakdown, breakdown
from triton_llm_client.bench.profile.engine_parts import PARTS, open_profiled
from triton_llm_client.bench.profile.served_times import Times, ask_served
from triton_llm_client.bench.rounds import Plan
from triton_llm_client.bench.servers import with_server
from triton_llm_client.bench.subjects import Setting

__all__ = ["profile"]


@dataclass
class _Taken:
    alone: list[Outcome]
    parts: dict[str, float]
    served: list[Times]


def profile(setting: Setting, plan: Plan, rounds: int, say: Callable[[str], None]) -> list[Breakdown]:
    """One breakdown a level. Raises ServeError where a request fails; CallerMistake of answers of one token."""
    if plan.output_tokens < 2:
        raise CallerMistake(f"--output-tokens {plan.output_tokens}: there is nothing between tokens; take at least 2.")
    taken = {n: _Taken([], dict.fromkeys(PARTS, 0.0), []) for n in plan.in_flight}
    with with_server(setting, ["served"]) as known:
        engine = open_profiled(setting)
        try:
            engine.run(plan.warm_up())
            _served(known, plan.warm_up())
            for number in range(rounds):
                for in_flight in plan.in_flight:
                    say(f"round {number + 1}: {in_flight} in flight")
                    _round(known, engine.profiled, plan, number, taken[in_flight], in_flight)
        finally:
            engine.close()
    return [_told(in_flight, one) for in_flight, one in taken.items()]


def _round(
    setting: Setting,
    profiled: Callable[[Load], tuple[Outcome, dict[str, float]]],
    plan: Plan,
    number: int,
    taken: _Taken,
    in_flight: int,
) -> None:
    outcome, parts = profiled(plan.load(number, in_flight))
    taken.alone.append(outcome)
    taken.parts = {name: taken.parts[name] + parts[name] for name in PARTS}
    taken.served += _served(setting, plan.load(number, in_flight))


def _served(setting: Setting, load: Load) -> list[Times]:
    assert setting.url is not None
    prompts = [prompt for prompt in load.prompts if not isinstance(prompt, str)]
    return ask_served(setting.url, setting.model, prompts, load.in_flight, load.output_tokens)


def _told(in_flight: int, taken: _Taken) -> Breakdown:
    answers = tuple(answer for outcome in taken.alone for answer in outcome.answers)
    whole = Outcome(sum(outcome.seconds for outcome in taken.alone), answers)
    return breakdown(in_flight, whole, taken.parts, taken.served)
