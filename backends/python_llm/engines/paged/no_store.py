"""What engine and prefix cache may ask of a store of blocks, and a store that keeps nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from python_llm.engines.paged.kv_host import Content
from python_llm.engines.paged.sequence import Sequence

__all__ = ["NoStore"]


class NoStore:
    """Used by the engine's thread alone, but for ``figures``."""

    @property
    def has_idle_work(self) -> bool:
        """Whether ``work_idly`` has something to do."""
        return False

    def remembered(self, digest: bytes) -> None:
        """The pool knows a block by this hash that was just computed."""

    def computed(self, prompt_tokens: int, tokens: int, seconds: float) -> None:
        """A step of so many tokens, of which so many were prompts', took so long."""

    def used(self, digests: list[bytes]) -> None:
        """These beginning blocks of a prompt were found in the pool."""

    def read_ahead(self, sequence: Sequence, wanted: Iterator[bytes]) -> None:
        """Begin to fetch what a newcomer wants and the pool lacks."""

    def is_ready(self, sequence: Sequence) -> bool:
        """Whether the sequence need not wait for a disk (any longer)."""
        return True

    def patience(self) -> float | None:
        """Seconds until some sequence waits no longer for a disk; None when none does."""
        return None

    def found(self, wanted: Iterable[bytes]) -> list[Content]:
        """The first of the wanted blocks that are here, if loading them pays."""
        return []

    def fill(self, blocks: list[int], contents: list[Content]) -> None:
        """Copy contents into blocks of the cache."""

    def work_idly(self) -> None:
        """Save one block that only the pool has."""

    def figures(self) -> Mapping[str, int]:
        """The store's fields of EngineStats."""
        return {}

    def close(self) -> None:
        """Save what only the pool has, within seconds."""
