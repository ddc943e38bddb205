"""SIGTERM, SIGINT and SIGHUP as two latches: the first asks for an end, a second hastens it.

A signal handler must take no lock, so a latch is a pipe: written to by the handler, waited for with select.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Latch", "Stop"]


class Latch:
    """Set once, for ever; may be set inside a signal handler."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.is_set = False

    def set(self) -> None:
        if not self.is_set:
            self.is_set = True
            os.write(self._write, b"!")

    def wait(self, seconds: float) -> bool:
        """Whether it is set, after at most ``seconds``."""
        if not self.is_set:
            select.select([self._read], [], [], seconds)
        return self.is_set

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


class Stop:
    """``requested`` and ``hastened``; `ask` is what a signal does."""

    def __init__(self) -> None:
        self.requested = Latch()
        self.hastened = Latch()

    def ask(self) -> None:
        (self.hastened if self.requested.is_set else self.requested).set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Signals ask for the end inside the block; the main thread alone may enter it."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.ask()

        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored under nohup, and so it stays
            numbers.append(signal.SIGHUP)
        old = [signal.signal(number, handle) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, old, strict=True):
                signal.signal(number, handler)

    def close(self) -> None:
        self.requested.close()
        self.hastened.close()
