"""The stages of ``make soak``: a long mixed load, saturation by the clock, chaos. Each says what it saw and found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tests.soak.chaos import EVENTS, BackgroundLoad, strike
from tests.soak.load import run_load
from tests.soak.plan import Plan, Route, mixed_plans
from tests.soak.served import Served
from tests.soak.store_events import STORE_EVENTS, Storing
from tests.soak.verdict import alone, differing, not_once, reasons
from tests.soak.wire import Ending

__all__ = ["IN_FLIGHT", "Seen", "chaos", "long_load", "saturation", "store_chaos"]

IN_FLIGHT = 64
GROWTH = 1.05  # of each process's memory, from the mark to the end
_MARK = 300  # requests
_WARM_UP = 1000  # requests before: the KV cache is full, and whatever libraries keep was kept once
_NEAR_TIES = 0.02  # of the requests
_LOOK_SECONDS = 1.0


@dataclass
class Seen:
    """Lines for the page, and what must not be; empty ``faults`` is success."""

    title: str
    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        print(f"  {line}", flush=True)
        self.lines.append(line)

    def require(self, holds: bool, fault: str) -> None:
        if not holds:
            print(f"  FAULT: {fault}", flush=True)
            self.faults.append(fault)


def long_load(served: Served, seed: int, count: int, routes: Sequence[Route]) -> Seen:
    """``count`` mixed requests: each ends once, as alone; no block and no memory is kept."""
    through = ", ".join(sorted(set(routes)))
    seen = Seen(f"{count} mixed requests through {through}, {IN_FLIGHT} in flight, seed {seed}")
    _fill_caches(served, seed + 1, routes)
    plans = mixed_plans(seed, count, routes)
    marks: dict[str, int] = {}
    ended = iter(range(1, count + 1))

    def on_end(ending: Ending) -> None:
        if next(ended) == min(_MARK, count):
            marks.update(served.resident())

    begun = time.monotonic()
    endings = run_load(served.url, served.name, plans, in_flight=IN_FLIGHT, on_end=on_end)
    seconds = time.monotonic() - begun
    seen.say(f"{len(endings)} ended in {seconds:.0f} s: {_listed(reasons(endings))}")
    wrong = not_once(endings)
    seen.require(not wrong and len(endings) == count, f"{len(wrong)} did not end exactly once: {wrong[:3]}")
    served.wait_until_idle()
    stats = served.status()["stats"]
    seen.say(
        f"then 0 running, 0 waiting, 0 of {stats['blocks_total']} KV blocks in use, {stats['blocks_cached']} cached; "
        f"{stats['preemptions']} preemptions so far"
    )
    after = served.resident()
    _tell_memory(seen, marks, after, f"after request {min(_MARK, count)}")
    for name, size in sorted(after.items()):
        first = marks.get(name, 0)
        seen.require(size <= GROWTH * first, f"{name} grew from {first / 1e6:.1f} to {size / 1e6:.1f} MB")
    _compare_texts(seen, served, endings)
    return seen


def saturation(served: Served, seed: int, minutes: float) -> Seen:
    """Never fewer than 64 in flight for so long: no restart, never unready. Clients leave by ``stop``, as ours do."""
    seen = Seen(f"{minutes:g} minutes at saturation, {IN_FLIGHT} in flight through every route, seed {seed}")
    first, restarts = served.server.tritonserver(), served.server.ready()[1]["restarts"]
    load = BackgroundLoad(served, seed, in_flight=IN_FLIGHT, change=Plan.stays)
    load.await_answers(_WARM_UP)
    marks, begun, unready = served.resident(), time.monotonic(), 0
    while time.monotonic() - begun < minutes * 60 and load.running:
        time.sleep(_LOOK_SECONDS)
        unready += not served.server.is_ready()
    endings = load.finish()
    seconds = time.monotonic() - begun
    seen.say(f"{len(endings)} requests, {len(endings) / seconds:.1f} a second: {_listed(reasons(endings))}")
    wrong = not_once(endings)
    seen.require(not wrong, f"{len(wrong)} did not end exactly once: {wrong[:3]}")
    served.wait_until_idle()
    _tell_memory(seen, marks, served.resident(), f"after request {_WARM_UP}")
    again = served.server.ready()[1]["restarts"] - restarts
    seen.require(again == 0 and served.server.tritonserver() == first, f"{again} restarts")
    seen.require(unready == 0, f"/ready said no {unready} times")
    seen.say(f"{again} restarts; /ready, asked every second, said no {unready} times")
    return seen


def chaos(served: Served, seed: int, rounds: int) -> Seen:
    """Every event so often, under load."""
    seen = Seen(f"Chaos, {rounds} rounds of {len(EVENTS)} events under load, seed {seed}")
    for name, event in EVENTS.items():
        _repeat(seen, name, partial(strike, served, event), seed, rounds)
    return seen


def store_chaos(storing: Storing, seed: int, rounds: int) -> Seen:
    """Every event of the KV store so often, under load."""
    seen = Seen(f"Chaos of the KV store, {rounds} rounds of {len(STORE_EVENTS)} events under load, seed {seed}")
    for name, event in STORE_EVENTS.items():
        _repeat(seen, name, partial(event, storing), seed, rounds)
    return seen


def _repeat(seen: Seen, name: str, event: Callable[[int], str], seed: int, rounds: int) -> None:
    told = []
    for number in range(rounds):
        try:
            told.append(event(seed + number))
        except AssertionError as error:
            seen.require(False, f"{name}, round {number + 1}: {error}")
    seen.say(f"{name}: {len(told)} of {rounds} rounds; {'; '.join(told)}")


def _fill_caches(served: Served, seed: int, routes: Sequence[Route]) -> None:
    """Some thousand mixed requests, and one prompt of each length: OpenVINO keeps kernels for each size of a step."""
    run_load(served.url, served.name, mixed_plans(seed, _WARM_UP, routes), in_flight=IN_FLIGHT)
    sizes = range(1, served.near_ties.serving.max_num_tokens + 1)
    bodies = [{"input_ids": np.full((1, size), 3 + size % 400, np.int32), "max_tokens": 1} for size in sizes]
    run_load(served.url, served.name, [Plan(n, "generator", body) for n, body in enumerate(bodies)], in_flight=1)


def _tell_memory(seen: Seen, before: Mapping[str, int], after: Mapping[str, int], when: str) -> None:
    for name, size in sorted(after.items()):
        seen.say(f"memory of {name}: {before.get(name, 0) / 1e6:.0f} MB {when}, {size / 1e6:.0f} MB at the end")


def _compare_texts(seen: Seen, served: Served, endings: Sequence[Ending]) -> None:
    try:
        solo = alone(served.url, served.name, [ending.plan for ending in endings])
    except AssertionError as error:
        seen.require(False, str(error))
        return
    apart = differing(endings, solo)
    ties = [served.near_ties.is_tie(ending, solo[ending.plan.body], at) for ending, at in apart]
    greedy = sum(1 for ending in endings if ending.plan.greedy)
    seen.say(f"{greedy} greedy answers against {len(solo)} solo runs: {len(ties)} part at a near-tie")
    seen.require(all(ties), f"{ties.count(False)} greedy answers differ, and not at a near-tie")
    seen.require(len(ties) <= _NEAR_TIES * len(endings), f"{len(ties)} near-ties of {len(endings)}")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())
