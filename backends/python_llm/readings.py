"""All numbers that the table of metrics may name, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from python_llm.recorder import Recorder

__all__ = ["Readings", "read"]


@dataclass(frozen=True, slots=True)
class Readings:
    """``groups``: numbers by label values. ``observed``: what distributions saw since the last reading."""

    numbers: Mapping[str, float]
    groups: Mapping[str, Mapping[tuple[str, ...], float]]
    observed: Mapping[str, list[float]]


def read(status: Mapping[str, Any], max_running: int, recorder: Recorder) -> Readings:
    """``status``: of the generator, with the engine's stats by field name; fields that an engine lacks are 0."""
    stats: Mapping[str, float] = status["stats"]
    total, used = stats.get("blocks_total", 0), stats.get("blocks_used", 0)
    numbers = {
        **stats,
        "running": status["running"],
        "waiting": status["waiting"],
        "unfinished": status["running"] + status["waiting"],
        "draining": status["draining"],
        "max_running": max_running,
        "in_context": max(0, stats["running"] - recorder.decoding),
        "blocks_free": total - used,
        "blocks_ratio": used / total if total else 0.0,
        "prompt_tokens": recorder.prompt_tokens,
        "output_tokens": recorder.output_tokens,
    }
    return Readings(
        {name: float(value) for name, value in numbers.items() if isinstance(value, (int, float))},
        recorder.groups(),
        {name: _taken(waiting) for name, waiting in recorder.observed.items()},
    )


def _taken(waiting: Any) -> list[float]:
    """What is there now; others may append meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting))]
