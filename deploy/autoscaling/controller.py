"""The horizontal pod autoscaler's algorithm, as Kubernetes documents it (HorizontalPodAutoscaler, "Algorithm details").

For each signal ceil(total / target), the current number within a tolerance of 10 %; the greatest of all. Up: the least
recommendation of the window, down: the greatest. Then the policies bound what may come or go, the widest of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from deploy.autoscaling.settings import Policy, Settings

__all__ = ["PERIOD_SECONDS", "Controller"]

PERIOD_SECONDS = 15
_TOLERANCE = 0.1


class Controller:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._recommended: list[tuple[int, int]] = []
        self._changes: list[tuple[int, int]] = []

    def decide(self, now: int, replicas: int, totals: Mapping[str, float]) -> int:
        """Replicas from now on. ``totals``: each signal summed over the servers that are ready."""
        settings = self._settings
        wanted = max(self._of_signal(totals[name], target, replicas) for name, target in settings.targets.items())
        self._recommended.append((now, min(max(wanted, settings.least), settings.most)))
        stable = self._stabilised(now, replicas)
        bounded = self._bounded(now, replicas, stable)
        if bounded != replicas:
            self._changes.append((now, bounded - replicas))
        return bounded

    def _of_signal(self, total: float, target: float, replicas: int) -> int:
        if abs(total / (target * replicas) - 1) <= _TOLERANCE:
            return replicas
        return math.ceil(total / target - 1e-9)

    def _stabilised(self, now: int, replicas: int) -> int:
        longest = max(self._settings.up_window, self._settings.down_window)
        self._recommended = [each for each in self._recommended if each[0] > now - longest - 1]
        up = min(count for at, count in self._recommended if at >= now - self._settings.up_window)
        down = max(count for at, count in self._recommended if at >= now - self._settings.down_window)
        return min(max(replicas, up), max(down, up)) if up > replicas else min(replicas, down)

    def _bounded(self, now: int, replicas: int, wanted: int) -> int:
        if wanted > replicas:
            return min(wanted, max(self._room(now, replicas, policy, +1) for policy in self._settings.up))
        return max(wanted, min(self._room(now, replicas, policy, -1) for policy in self._settings.down))

    def _room(self, now: int, replicas: int, policy: Policy, sign: int) -> int:
        """How far one policy lets it go: from where the period began."""
        moved = sum(change for at, change in self._changes if at > now - policy.seconds and change * sign > 0)
        start = replicas - moved
        return math.ceil(start * (1 + sign * policy.percent / 100) if policy.percent else start + sign * policy.pods)
