"""What the server measured of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["METRICS", "Metrics"]


@dataclass(frozen=True, slots=True)
class Metrics:
    """With ``return_perf_metrics``; each field is the output of the same name.

    Times are nanoseconds of the server's monotonic clock, 0 where that never happened: only their differences mean
    something here.
    """

    arrival_time_ns: int
    first_scheduled_time_ns: int
    first_token_time_ns: int
    last_token_time_ns: int
    kv_cache_reused_blocks: int
    kv_cache_alloc_new_blocks: int
    total_draft_tokens: int
    total_accepted_draft_tokens: int

    @staticmethod
    def of(outputs: Mapping[str, tuple[Any, ...]]) -> Metrics | None:
        """None where the response tells none."""
        if not outputs.get("arrival_time_ns"):
            return None
        return Metrics(*(outputs[name][0] for name in METRICS))


METRICS = tuple(field.name for field in fields(Metrics))
