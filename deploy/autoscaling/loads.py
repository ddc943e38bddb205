"""Synthetic loads: seconds -> requests a second. Deterministic, with a noise of a few percent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

__all__ = ["HOURS", "LOADS", "Load"]

Load = Callable[[int], float]
HOURS: Mapping[str, int] = {"step": 6, "spike": 6, "diurnal": 48}


def _noise(second: int) -> float:
    return 1 + 0.03 * math.sin(second / 7.3) + 0.03 * math.sin(second / 61.7)


def _step(second: int) -> float:
    return (900.0 if second > 3600 else 30.0) * _noise(second)


def _spike(second: int) -> float:
    return (1500.0 if 3600 < second < 5400 else 60.0) * _noise(second)


def _diurnal(second: int) -> float:
    return (1600.0 - 1560.0 * math.cos(2 * math.pi * second / 86400)) * _noise(second)


LOADS: Mapping[str, Load] = {"step": _step, "spike": _spike, "diurnal": _diurnal}
