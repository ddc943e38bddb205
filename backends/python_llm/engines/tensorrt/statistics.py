"""The library's iteration statistics, as far as EngineStats has a place for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["Statistics"]


class Statistics:
    """Takes one iteration's record after another: an object or its JSON, in the library's camelCase or snake_case."""

    def __init__(self) -> None:
        self.iterations = 0  # records taken
        self._kv: Mapping[str, Any] = {}
        self._paused = 0
        self._preemptions = 0

    def take(self, record: Mapping[str, Any] | str) -> None:
        read: Mapping[str, Any] = json.loads(record) if isinstance(record, str) else record
        self.iterations += 1
        self._kv = _of(read, "kv_cache_stats") or self._kv
        paused = int(_of(_of(read, "inflight_batching_stats") or {}, "num_paused_requests") or 0)
        self._preemptions += max(0, paused - self._paused)
        self._paused = paused

    def figures(self) -> dict[str, int]:
        """Fields of EngineStats; 0 where the library says nothing."""
        block = self._count("tokens_per_block")
        reused, missed = self._count("reused_blocks"), self._count("missed_blocks")
        return {
            "block_size": block,
            "blocks_used": self._count("used_num_blocks"),
            "blocks_total": self._count("max_num_blocks"),
            "prefix_tokens_hit": reused * block,
            "prefix_tokens_seen": (reused + missed) * block,
            "preemptions": self._preemptions,
        }

    def _count(self, name: str) -> int:
        return int(_of(self._kv, name) or 0)


def _of(record: Mapping[str, Any], name: str) -> Any:
    head, *tail = name.split("_")
    return record.get(name, record.get(head + "".join(part.capitalize() for part in tail)))
