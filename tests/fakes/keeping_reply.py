"""A Reply that keeps what it is given, lets the test wait for it, and breaks when told."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from python_llm.errors import ServeError

__all__ = ["KeepingReply"]

_PATIENCE_SECONDS = 30.0  # only catches hangs


class KeepingReply:
    """``break_at`` is the number of the send that raises, from 1; ``for_good`` breaks all after it as well."""

    def __init__(self, *, break_at: int = 0, for_good: bool = False) -> None:
        self.sent: list[Mapping[str, Any]] = []
        self.finals = 0
        self.error: ServeError | None = None
        self.has_left = False
        self.attempts = 0
        self._break_at, self._for_good = break_at, for_good
        self._changed = threading.Condition()

    def send(self, outputs: Mapping[str, Any], *, final: bool) -> None:
        with self._changed:
            self._attempt()
            self.sent.append(dict(outputs))
            self.finals += final
            self._changed.notify_all()

    def fail(self, error: ServeError) -> None:
        with self._changed:
            self._attempt()
            self.error = error
            self.finals += 1
            self._changed.notify_all()

    def is_cancelled(self) -> bool:
        return self.has_left

    def wait(self) -> KeepingReply:
        """Until the final response."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.finals > 0, _PATIENCE_SECONDS), "no final response came"
        return self

    def wait_for(self, count: int) -> None:
        """Until that many responses are here."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= count, _PATIENCE_SECONDS)

    def wait_for_attempts(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.attempts >= count, _PATIENCE_SECONDS)

    @property
    def text(self) -> str:
        return "".join(outputs["text_output"] for outputs in self.sent)

    @property
    def ids(self) -> list[int]:
        return [token_id for outputs in self.sent for token_id in outputs["output_ids"]]

    @property
    def reason(self) -> str:
        assert self.error is None, self.error
        reason: str = self.sent[-1]["finish_reason"]
        return reason

    def _attempt(self) -> None:
        assert not self.finals, "a response after the final one"
        self.attempts += 1
        self._changed.notify_all()
        if self._break_at and (self.attempts == self._break_at or (self._for_good and self.attempts > self._break_at)):
            raise RuntimeError("the way back is broken")
