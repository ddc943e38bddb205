"""An event loop whose clock jumps instead of waiting: what takes an hour by its clock takes no time."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

__all__ = ["JumpingLoop"]


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: a wait moves its clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now
