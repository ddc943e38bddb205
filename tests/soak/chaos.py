"""Processes die or stand still under load: every client gets an end, the service is back, nothing is left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from python_llm.contract import role_model
from server_under_test import wait_until
from tests.soak.load import Load, run_load
from tests.soak.plan import Plan, Route, mixed_plans
from tests.soak.served import Served
from tests.soak.verdict import not_once
from tests.soak.wire import Ending
from triton_launcher import processes

__all__ = ["EVENTS", "UNDER_WAY", "BackgroundLoad", "Event", "assert_whole", "restarts_of", "strike"]

_IN_FLIGHT = 16
_PATIENCE_SECONDS = 600.0  # only catches hangs
_TRIES = 5
UNDER_WAY = 40  # requests that ended before something happens
_ROLES = ("tokenizer", "generator", "detokenizer", "unary")
ROUTES: tuple[Route, ...] = ("generator", "unary", "ensemble")


@dataclass(frozen=True)
class Event:
    """``victim``: a role whose backend process is struck, or tritonserver."""

    signal: signal.Signals
    victim: str

    def pid(self, served: Served) -> int:
        if self.victim == "tritonserver":
            return served.server.tritonserver()
        model = role_model(served.name, self.victim)
        return next(pid for pid, stub in processes.stubs(served.server.marker).items() if stub.model == model)


EVENTS: Mapping[str, Event] = {
    **{f"kill -9 of {victim}": Event(signal.SIGKILL, victim) for victim in (*_ROLES, "tritonserver")},
    **{f"SIGSTOP of {victim}": Event(signal.SIGSTOP, victim) for victim in ("generator", "tritonserver")},
}


class BackgroundLoad:
    """Mixed requests, one after another in each of ``in_flight`` places, until `finish`."""

    def __init__(
        self,
        served: Served,
        seed: int,
        *,
        in_flight: int = _IN_FLIGHT,
        routes: Sequence[Route] = ROUTES,
        change: Callable[[Plan], Plan] = lambda plan: plan,
    ) -> None:
        """``change`` may make another request of each."""
        self._served = served
        self._in_flight = in_flight
        self._plans = map(change, _endless(seed, routes))
        self._finished = False
        self.endings: list[Ending] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """False when it broke."""
        return self._thread.is_alive()

    def await_answers(self, count: int) -> None:
        """Until so many more requests were answered, and not refused."""
        goal = self._answered() + count
        self._await(lambda: self._answered() >= goal, f"{count} more answers")

    def finish(self) -> list[Ending]:
        """No new requests; those that run are seen to their ends."""
        self._finished = True
        self._thread.join(_PATIENCE_SECONDS)
        assert not self._thread.is_alive(), f"requests that never end\n{self._served.server.tail()}"
        if self._failure is not None:
            raise self._failure
        return self.endings

    def _answered(self) -> int:
        return sum(1 for ending in self.endings if ending.finals)

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(lambda: condition() or not self._thread.is_alive(), what, _PATIENCE_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self._failure = error

    async def _send(self) -> None:
        async with Load.connect(self._served.url, self._served.name) as load:

            async def place() -> None:
                while not self._finished:
                    ending = await load.one(next(self._plans))
                    self.endings.append(ending)
                    if ending.errors and not ending.plan.malformed:
                        await asyncio.sleep(0.2)  # as a client does whose server is gone

            await asyncio.gather(*(place() for _ in range(self._in_flight)))


def strike(served: Served, event: Event, seed: int) -> str:
    """One event under load; returns what was seen, and raises AssertionError for what must not be."""
    first, restarts = served.server.tritonserver(), restarts_of(served)
    load = BackgroundLoad(served, seed)
    load.await_answers(UNDER_WAY)
    os.kill(event.pid(served), event.signal)
    served.server.wait_until(
        lambda: served.server.tritonserver() not in (0, first) and served.server.is_ready(), "the service back"
    )
    load.await_answers(UNDER_WAY)
    endings = load.finish()
    wrong = [ending for ending in endings if not ending.left and (ending.ends != 1 or ending.after_the_end)]
    assert not wrong, f"requests without one end: {wrong[:3]}"
    count = assert_whole(served) - restarts
    assert count >= 1, f"no restart\n{served.server.tail()}"
    broken = sum(1 for ending in endings if ending.errors and not ending.plan.malformed)
    return f"{len(endings)} requests, {broken} ended with an error, restarts: {count}"


def assert_whole(served: Served) -> int:
    """Every route answers and nothing of a former start is left; returns how many restarts there were.

    One is expected. A machine that stands still for longer than the supervisor's patience, or a Triton that dies of a
    client that leaves, adds one of its own: what is asked for must hold all the same, when it is over.
    """
    for _ in range(_TRIES):
        served.server.wait_until(served.server.is_ready, "the service ready")
        restarts = restarts_of(served)
        try:
            _check(served, restarts)
        except Exception:  # what a server that goes away in the middle makes of it
            if restarts_of(served) == restarts and served.server.is_ready():
                raise
        else:
            return restarts
    raise AssertionError(f"the service restarts again and again\n{served.server.tail()}")


def restarts_of(served: Served) -> int:
    return int(served.server.ready()[1]["restarts"])


def _check(served: Served, restarts: int) -> None:
    served.wait_until_idle()
    plans = [Plan(number, route, {"text_input": "back", "max_tokens": 3}) for number, route in enumerate(ROUTES)]
    endings = run_load(served.url, served.name, plans, in_flight=1)
    assert not not_once(endings)
    models = sorted(stub.model for stub in processes.stubs(served.server.marker).values())
    assert models == sorted(role_model(served.name, role) for role in _ROLES)
    current = f"{served.server.marker}_{restarts + 1}_"
    stale = [path.name for path in processes.shared_memory(served.server.marker) if not path.name.startswith(current)]
    assert not stale, f"stale shared memory: {stale}"


def _endless(seed: int, routes: Sequence[Route]) -> Iterator[Plan]:
    for part in itertools.count(seed):
        for plan in mixed_plans(part, 1000, routes):
            yield Plan(plan.number + 1000 * part, plan.route, plan.values, plan.malformed, plan.leave, plan.leave_after)
