"""A load, a fleet and the autoscaler, second by second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deploy.autoscaling.controller import PERIOD_SECONDS, Controller
from deploy.autoscaling.fleet import Fleet, Server
from deploy.autoscaling.loads import Load
from deploy.autoscaling.settings import Settings

__all__ = ["Moment", "Run", "simulate"]


@dataclass(frozen=True)
class Moment:
    second: int
    load: float  # requests a second
    replicas: int
    waiting: float


@dataclass(frozen=True)
class Run:
    """One moment for each look of the autoscaler."""

    moments: Sequence[Moment]

    @property
    def turns(self) -> int:
        """How often replicas went the other way than before: 1 is up and then down."""
        counts = [each.replicas for each in self.moments]
        ways = [after > before for before, after in pairwise(counts) if after != before]
        return sum(one != other for one, other in pairwise(ways))

    @property
    def peak(self) -> int:
        return max(each.replicas for each in self.moments)


def simulate(settings: Settings, load: Load, seconds: int, server: Server | None = None) -> Run:
    server = server or Server()
    first = round(load(0) * server.tokens / settings.targets.get("tokens", server.rates[-1][1]))
    fleet = Fleet(server, min(max(settings.least, first), settings.most), load(0))
    controller, moments = Controller(settings), []
    for now in range(seconds):
        arrivals = load(now)
        fleet.step(now, arrivals)
        if now % PERIOD_SECONDS == 0:
            fleet.scale(now, controller.decide(now, fleet.replicas, fleet.totals()))
            moments.append(Moment(now, arrivals, fleet.replicas, fleet.waiting))
    return Run(moments)
